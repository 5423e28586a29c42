// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

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
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/deploy"
	"kerf.dev/kerf/fabric/redfish/service"
	"kerf.dev/kerf/sandbox/driver"
	"kerf.dev/kerf/sandbox/manifest"
)

const (
	// FabricNamespace is the namespace of deploy/controller. It is there once
	// StartFabric was called.
	FabricNamespace = "kerf-system"
	// fabricSecret is the one Secret that the deployed roles let the controller read.
	fabricSecret = "fabric-credentials"
	// driversRole is the role that names the drivers whose devices a fabric brings.
	driversRole = "kerf-controller:drivers"
)

// fabricParts are the parts of a sandbox that only a fabric needs.
type fabricParts struct {
	// mu is held while parts are started or stopped.
	mu         sync.Mutex
	installed  bool
	controller *controllerRun

	// seeing is held while drivers are told what hosts see, so that they hear the
	// newest last. The shelf's service waits for it.
	seeing sync.Mutex

	// look is for the fields below, and held for a moment only.
	look    sync.Mutex
	shelf   *redfish
	drivers map[string]*driverRun
}

// driverRun is a vendor's driver on its nodes.
type driverRun struct {
	*component
	driver *driver.Driver
}

// StartFabric has the sandbox run what a fabric needs: the kinds of fabric.kerf.dev,
// the roles of deploy/controller, and kerf-controller. What is there stays.
func (s *Sandbox) StartFabric(ctx context.Context) error {
	s.fabric.mu.Lock()
	defer s.fabric.mu.Unlock()
	if !s.fabric.installed {
		if err := s.installFabric(ctx); err != nil {
			return fmt.Errorf("install the fabric's kinds and roles: %w", err)
		}
		s.fabric.installed = true
	}
	if s.fabric.controller != nil {
		return nil
	}
	return s.startController(ctx)
}

// installFabric applies the deployed manifests and observes the new kinds.
func (s *Sandbox) installFabric(ctx context.Context) error {
	files, err := fs.Glob(deploy.CRDs, "crds/*.yaml")
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
	if err := s.Apply(ctx, set); err != nil {
		return err
	}
	// Fabrics are not observed: their status has the time of the last inventory, so they
	// never rest.
	return s.observer.watch(attachmentResource)
}

// StockShelf puts up a shelf of devices with a Redfish service that manages it. Hosts
// are the nodes of the same hostName. There is one shelf at a time.
func (s *Sandbox) StockShelf(ctx context.Context, config service.Config) error {
	s.fabric.mu.Lock()
	defer s.fabric.mu.Unlock()
	if s.shelf() != nil {
		return errors.New("stock a shelf: there is one already")
	}
	shelf, err := newRedfish(config, s.saw)
	if err != nil {
		return fmt.Errorf("stock a shelf: %w", err)
	}
	s.setShelf(shelf)
	if err := shelf.start(ctx); err != nil {
		s.setShelf(nil)
		return errors.Join(err, shelf.close())
	}
	return s.writeCredentials(ctx, shelf)
}

func (s *Sandbox) shelf() *redfish {
	s.fabric.look.Lock()
	defer s.fabric.look.Unlock()
	return s.fabric.shelf
}

func (s *Sandbox) setShelf(shelf *redfish) {
	s.fabric.look.Lock()
	defer s.fabric.look.Unlock()
	s.fabric.shelf = shelf
}

// writeCredentials writes the Secret with the user of the shelf's service, for that
// service alone.
func (s *Sandbox) writeCredentials(ctx context.Context, shelf *redfish) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: FabricNamespace, Name: fabricSecret,
			Annotations: map[string]string{v1alpha1.SecretEndpoint: shelf.endpoint()},
		},
		Type: corev1.SecretTypeBasicAuth,
		StringData: map[string]string{
			corev1.BasicAuthUsernameKey: shelf.options.Username,
			corev1.BasicAuthPasswordKey: shelf.options.Password,
		},
	}
	secrets := s.client.CoreV1().Secrets(FabricNamespace)
	_, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write the credentials of the Redfish service: %w", err)
	}
	return nil
}

// ShelfService is how a Fabric reaches the shelf's service. It fails if there is no
// shelf.
func (s *Sandbox) ShelfService() (v1alpha1.Redfish, error) {
	shelf := s.shelf()
	if shelf == nil {
		return v1alpha1.Redfish{}, errors.New("there is no shelf")
	}
	return v1alpha1.Redfish{
		Endpoint:             shelf.endpoint(),
		CredentialsSecretRef: &v1alpha1.SecretReference{Namespace: FabricNamespace, Name: fabricSecret},
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
func (s *Sandbox) RunDriver(ctx context.Context, d Driver) error {
	s.fabric.mu.Lock()
	defer s.fabric.mu.Unlock()
	run := s.driverRun(d.Name)
	if run == nil {
		if err := s.permitDriver(ctx, d.Name); err != nil {
			return fmt.Errorf("run driver %s: %w", d.Name, err)
		}
		run = s.startDriver(ctx, d)
	}
	for node, own := range d.Nodes {
		run.driver.Place(node, own...)
	}
	if shelf := s.shelf(); shelf != nil {
		for host, node := range shelf.hosts() {
			run.driver.Place(node)
			s.saw(host)
		}
	}
	return nil
}

// startDriver starts a driver that is nowhere yet. The caller holds the lock.
func (s *Sandbox) startDriver(ctx context.Context, d Driver) *driverRun {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var attachments func(node string) (dynamic.Interface, error)
	if s.fabric.installed {
		attachments = func(node string) (dynamic.Interface, error) { return s.asDriver(d.Name, node) }
	}
	run := &driverRun{driver: driver.New(driver.Options{
		Attachments: attachments,
		Name:        d.Name, Latency: d.Latency, Takes: d.Takes, Client: s.client,
		Directory: filepath.Join(s.dir, "augment", d.Name),
		Report:    func(err error) { klog.ErrorS(err, "Simulated driver") },
	})}
	run.component = runComponent("driver "+d.Name, cancel, s.fail, func() error { return run.driver.Run(ctx) })
	s.fabric.look.Lock()
	defer s.fabric.look.Unlock()
	if s.fabric.drivers == nil {
		s.fabric.drivers = map[string]*driverRun{}
	}
	s.fabric.drivers[d.Name] = run
	return run
}

// driverUser is the service account that a simulated driver has for its Guard.
func driverUser(name string) string { return "system:serviceaccount:" + FabricNamespace + ":" + name }

// asDriver is a client with the rights of a driver's pod on a node.
func (s *Sandbox) asDriver(name, node string) (dynamic.Interface, error) {
	config := s.Config()
	config.Impersonate = rest.ImpersonationConfig{
		UserName: driverUser(name), Groups: controllerGroups,
		Extra: map[string][]string{serviceaccount.NodeNameKey: {node}},
	}
	return dynamic.NewForConfig(config)
}

// permitGuard binds the role for Guards to the account of a driver.
func (s *Sandbox) permitGuard(ctx context.Context, name string) error {
	_, err := s.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
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
func (s *Sandbox) permitDriver(ctx context.Context, name string) error {
	if !s.fabric.installed {
		return nil
	}
	if err := s.permitGuard(ctx, name); err != nil {
		return err
	}
	roles := s.client.RbacV1().ClusterRoles()
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

// Driver returns a driver that runs, nil if there is none of that name.
func (s *Sandbox) Driver(name string) *driver.Driver {
	if run := s.driverRun(name); run != nil {
		return run.driver
	}
	return nil
}

// Drivers returns all drivers that run.
func (s *Sandbox) Drivers() []*driver.Driver {
	var drivers []*driver.Driver
	for _, run := range s.driverRuns() {
		drivers = append(drivers, run.driver)
	}
	return drivers
}

func (s *Sandbox) driverRun(name string) *driverRun {
	s.fabric.look.Lock()
	defer s.fabric.look.Unlock()
	return s.fabric.drivers[name]
}

func (s *Sandbox) driverRuns() []*driverRun {
	s.fabric.look.Lock()
	defer s.fabric.look.Unlock()
	return slices.Collect(maps.Values(s.fabric.drivers))
}

// saw tells the drivers what a host of the shelf sees now.
func (s *Sandbox) saw(host string) {
	s.fabric.seeing.Lock()
	defer s.fabric.seeing.Unlock()
	shelf := s.shelf()
	if shelf == nil {
		return
	}
	node, devices := shelf.hosts()[host], shelf.sees(host)
	for _, run := range s.driverRuns() {
		run.driver.See(node, devices)
	}
}

// StopFabric stops the controller, the shelf and the drivers. Objects stay.
func (s *Sandbox) StopFabric() error {
	s.fabric.mu.Lock()
	defer s.fabric.mu.Unlock()
	err := s.stopController()
	if shelf := s.shelf(); shelf != nil {
		err = errors.Join(err, shelf.close())
	}
	for _, run := range s.driverRuns() {
		err = errors.Join(err, run.stop())
	}
	s.fabric.look.Lock()
	defer s.fabric.look.Unlock()
	s.fabric.shelf, s.fabric.drivers = nil, nil
	return err
}
