// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package rack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/deploy"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/fabric/redfish/description"
	"kerf.dev/kerf/fabric/redfish/service"
	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/sandbox/cluster"
	"kerf.dev/kerf/sandbox/driver"
	"kerf.dev/kerf/sandbox/part"
)

const (
	// Namespace is the namespace of deploy/controller. It is there once
	// Start was called.
	Namespace = "kerf-system"
	// fabricSecret is the one Secret that the deployed roles let the controller read.
	fabricSecret = "fabric-credentials"
	// driversRole is the role that names the drivers whose devices a fabric brings.
	driversRole = "kerf-controller:drivers"
)

// Cluster is the sandbox that a rack is in.
type Cluster struct {
	// Address is the API server's, Directory where files go with the sandbox.
	Address, Directory string
	// Admin, Client and Dynamic have all rights.
	Admin   *rest.Config
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// As is the configuration of a user's clients that reach the API server there.
	As func(server, user string, groups ...string) (*rest.Config, error)
	// Read returns what the API server keeps of some kinds.
	Read cluster.Source
	// Apply creates the objects of a set.
	Apply func(context.Context, *manifest.Set) error
	// Watch has the sandbox notice changes of objects of further kinds.
	Watch func(...schema.GroupVersionResource) error
	// Abandon ends what is held of a part that was killed or cut off.
	Abandon func(part string)
	// Failed is told of a part that ends by itself.
	Failed func(error)
	// Tune, if not nil, changes the times of kerf-controller.
	Tune func(*fabric.Policy)
}

// Rack is what a sandbox runs for fabrics, nothing at first.
type Rack struct {
	in Cluster

	// mu is held while shelf and drivers are put up or taken away.
	mu         sync.Mutex
	installed  atomic.Bool
	controller *part.Linked

	// seeing is held while drivers are told what hosts see, so that they hear the
	// newest last. The shelf's service waits for it.
	seeing sync.Mutex

	// look is for the fields below, and held for a moment only.
	look    sync.Mutex
	stocked *redfish
	drivers map[string]*driverRun
}

// New returns the rack of a sandbox. Nothing of it runs yet.
func New(in Cluster) *Rack {
	r := &Rack{in: in}
	r.controller = r.newController()
	return r
}

// Parts are those that can be killed, in the order in which they start: the drivers on a
// node, the Redfish service of the shelf, and kerf-controller.
func (r *Rack) Parts() part.Table {
	return part.Table{
		{Name: "driver", Part: &driversPart{rack: r}},
		{Name: "redfish", Part: &redfishPart{rack: r}},
		{Name: "controller", Part: r.controller},
	}
}

// driverRun is a vendor's driver on its nodes.
type driverRun struct {
	*part.Component
	driver *driver.Driver
}

// Start has the sandbox run what a fabric needs: the kinds of fabric.kerf.dev,
// the roles of deploy/controller, and kerf-controller. What is there stays.
func (r *Rack) Start(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.installed.Load() {
		if err := r.installFabric(ctx); err != nil {
			return fmt.Errorf("install the fabric's kinds and roles: %w", err)
		}
		r.installed.Store(true)
	}
	if err := r.controller.Start(ctx, ""); !errors.Is(err, part.ErrRunning) {
		return err
	}
	return nil
}

// installFabric applies the deployed manifests and observes the new kinds.
func (r *Rack) installFabric(ctx context.Context) error {
	files, err := fs.Glob(deploy.CRDs, "crds/fabric.*.yaml")
	if err != nil {
		return err
	}
	var all bytes.Buffer
	for _, file := range files {
		text, err := deploy.CRDs.ReadFile(file)
		if err != nil {
			return err
		}
		all.WriteString("---\n")
		all.Write(text)
	}
	for _, text := range [][]byte{deploy.ControllerRBAC, deploy.ControllerAdmission} {
		all.WriteString("\n---\n")
		all.Write(text)
	}
	set, err := manifest.Parse("deploy", &all)
	if err != nil {
		return err
	}
	if err := r.in.Apply(ctx, set); err != nil {
		return err
	}
	// Fabrics are not observed: their status has the time of the last inventory, so they
	// never rest.
	return r.in.Watch(AttachmentResource)
}

// Stock puts up a shelf of devices with a Redfish service that manages it. Hosts
// are the nodes of the same hostName. There is one shelf at a time.
func (r *Rack) Stock(ctx context.Context, config description.Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shelf() != nil {
		return errors.New("stock a shelf: there is one already")
	}
	shelf, err := newRedfish(config, r.saw)
	if err != nil {
		return fmt.Errorf("stock a shelf: %w", err)
	}
	r.setShelf(shelf)
	if err := shelf.start(ctx); err != nil {
		r.setShelf(nil)
		return errors.Join(err, shelf.close())
	}
	return r.writeCredentials(ctx, shelf)
}

func (r *Rack) shelf() *redfish {
	r.look.Lock()
	defer r.look.Unlock()
	return r.stocked
}

func (r *Rack) setShelf(shelf *redfish) {
	r.look.Lock()
	defer r.look.Unlock()
	r.stocked = shelf
}

// writeCredentials writes the Secret with the user of the shelf's service, for that
// service alone.
func (r *Rack) writeCredentials(ctx context.Context, shelf *redfish) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: fabricSecret,
			Annotations: map[string]string{v1alpha1.SecretEndpoint: shelf.endpoint()},
		},
		Type: corev1.SecretTypeBasicAuth,
		StringData: map[string]string{
			corev1.BasicAuthUsernameKey: shelf.options.Username,
			corev1.BasicAuthPasswordKey: shelf.options.Password,
		},
	}
	secrets := r.in.Client.CoreV1().Secrets(Namespace)
	_, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write the credentials of the Redfish service: %w", err)
	}
	return nil
}

// Access is how a Fabric reaches the shelf's service. It fails if there is no
// shelf.
func (r *Rack) Access() (v1alpha1.Redfish, error) {
	shelf := r.shelf()
	if shelf == nil {
		return v1alpha1.Redfish{}, errors.New("there is no shelf")
	}
	return v1alpha1.Redfish{
		Endpoint:             shelf.endpoint(),
		CredentialsSecretRef: &v1alpha1.SecretReference{Namespace: Namespace, Name: fabricSecret},
		CABundle:             shelf.authority,
	}, nil
}

// Driver is a vendor's driver to simulate.
type Driver struct {
	// Name is the driver's name.
	Name string
	// Latency is how long after a change on a node's bus the driver notices.
	Latency time.Duration
	// Takes tells which devices on a bus are the driver's; nil: all.
	Takes func(service.Device) bool
	// Nodes are where it runs, beside the nodes of the shelf's hosts, with the devices
	// that they always had.
	Nodes map[string][]resourceapi.Device
}

// RunDriver runs a driver on nodes. One that runs is told of more nodes and devices.
func (r *Rack) RunDriver(ctx context.Context, d Driver) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := r.driverRun(d.Name)
	if run == nil {
		if err := r.permitDriver(ctx, d.Name); err != nil {
			return fmt.Errorf("run driver %s: %w", d.Name, err)
		}
		if run, err = r.startDriver(ctx, d); err != nil {
			return err
		}
	}
	for node, own := range d.Nodes {
		run.driver.Place(node, own...)
	}
	if shelf := r.shelf(); shelf != nil {
		for host, node := range shelf.hosts() {
			run.driver.Place(node)
			r.saw(host)
		}
	}
	return nil
}

// startDriver starts a driver that is nowhere yet. The caller holds the lock.
func (r *Rack) startDriver(ctx context.Context, d Driver) (*driverRun, error) {
	var attachments func(node string) (dynamic.Interface, error)
	if r.installed.Load() {
		attachments = func(node string) (dynamic.Interface, error) { return r.asDriver(d.Name, node) }
	}
	run := &driverRun{driver: driver.New(driver.Options{
		Attachments: attachments,
		Name:        d.Name, Latency: d.Latency, Takes: d.Takes, Client: r.in.Client,
		Directory: filepath.Join(r.in.Directory, "augment", d.Name),
		Report:    func(err error) { klog.ErrorS(err, "Simulated driver") },
	})}
	var err error
	run.Component, err = part.Run(ctx, "driver "+d.Name, r.in.Failed, func(ctx context.Context) (func() error, error) {
		return func() error { return run.driver.Run(ctx) }, nil
	})
	if err != nil {
		return nil, err
	}
	r.look.Lock()
	defer r.look.Unlock()
	if r.drivers == nil {
		r.drivers = map[string]*driverRun{}
	}
	r.drivers[d.Name] = run
	return run, nil
}

// driverUser is the service account that a simulated driver has for its Guard.
func driverUser(name string) string { return "system:serviceaccount:" + Namespace + ":" + name }

// asDriver is a client with the rights of a driver's pod on a node.
func (r *Rack) asDriver(name, node string) (dynamic.Interface, error) {
	config := rest.CopyConfig(r.in.Admin)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: driverUser(name), Groups: ControllerGroups,
		Extra: map[string][]string{serviceaccount.NodeNameKey: {node}},
	}
	return dynamic.NewForConfig(config)
}

// permitGuard binds the role for Guards to the account of a driver.
func (r *Rack) permitGuard(ctx context.Context, name string) error {
	_, err := r.in.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kerf-sandbox:guard:" + name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kerf-driver:guard"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: driverUser(name)}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// permitDriver adds a driver to the role that names those of the fabric, and lets it
// have a Guard, as an administrator has to.
func (r *Rack) permitDriver(ctx context.Context, name string) error {
	if !r.installed.Load() {
		return nil
	}
	if err := r.permitGuard(ctx, name); err != nil {
		return err
	}
	roles := r.in.Client.RbacV1().ClusterRoles()
	role, err := roles.Get(ctx, driversRole, metav1.GetOptions{})
	if err != nil {
		return err
	}
	changed := false
	for i := range role.Rules {
		if rule := &role.Rules[i]; !slices.Contains(rule.ResourceNames, name) && isDriverRule(rule) {
			rule.ResourceNames = append(rule.ResourceNames, name)
			changed = true
		}
	}
	if changed {
		_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
	}
	return err
}

func isDriverRule(rule *rbacv1.PolicyRule) bool {
	return slices.Contains(rule.Resources, "resourceclaims/driver")
}

// Drivers returns all drivers that run.
func (r *Rack) Drivers() []*driver.Driver {
	var drivers []*driver.Driver
	for _, run := range r.driverRuns() {
		drivers = append(drivers, run.driver)
	}
	return drivers
}

func (r *Rack) driverRun(name string) *driverRun {
	r.look.Lock()
	defer r.look.Unlock()
	return r.drivers[name]
}

func (r *Rack) driverRuns() []*driverRun {
	r.look.Lock()
	defer r.look.Unlock()
	return slices.Collect(maps.Values(r.drivers))
}

// saw tells the drivers what a host of the shelf sees now.
func (r *Rack) saw(host string) {
	r.seeing.Lock()
	defer r.seeing.Unlock()
	shelf := r.shelf()
	if shelf == nil {
		return
	}
	node, devices := shelf.hosts()[host], shelf.sees(host)
	for _, run := range r.driverRuns() {
		run.driver.See(node, devices)
	}
}

// Stop stops the controller, takes the shelf away, and stops the drivers. Objects stay.
func (r *Rack) Stop() error { return r.Parts().StopAll() }
