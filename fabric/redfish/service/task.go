// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"kerf.dev/kerf/fabric/redfish/description"
)

func (s *Service) getTaskService(*http.Request) (resource, *refusal) {
	return resource{
		"@odata.id": rootPath + "/TaskService", "@odata.type": "#TaskService.v1_2_1.TaskService", "Id": "TaskService",
		"Name": "Task Service", "ServiceEnabled": true, "Tasks": link(tasksPath),
	}, nil
}

func (s *Service) getTasks(*http.Request) (resource, *refusal) {
	byNumber := func(a, b *operation) int { return cmp.Or(cmp.Compare(len(a.id), len(b.id)), cmp.Compare(a.id, b.id)) }
	var members []resource
	for _, o := range slices.SortedFunc(maps.Values(s.tasks), byNumber) {
		members = append(members, o.taskResource())
	}
	return collection(tasksPath, "TaskCollection.TaskCollection", members), nil
}

func (s *Service) getTask(r *http.Request) (resource, *refusal) {
	if o := s.tasks[r.PathValue("task")]; o != nil {
		return o.taskResource(), nil
	}
	return nil, notFound(r)
}

// hasEnded tells whether there is a result.
func (o *operation) hasEnded() bool { return !o.ended.IsZero() }

func (o *operation) taskResource() resource {
	task := resource{
		"@odata.id": tasksPath + "/" + o.id, "@odata.type": "#Task.v1_7_4.Task", "Id": o.id, "Name": string(o.kind),
		"TaskState": "Running", "TaskStatus": "OK", "TaskMonitor": monitorsPath + "/" + o.id,
		"StartTime": o.begun.UTC().Format(time.RFC3339), "Messages": []resource{},
	}
	if !o.hasEnded() {
		return task
	}
	task["EndTime"] = o.ended.UTC().Format(time.RFC3339)
	task["TaskState"], task["PercentComplete"] = "Completed", 100
	if o.failure != nil {
		task["TaskState"], task["TaskStatus"] = "Exception", "Critical"
		task["Messages"] = []resource{{"MessageId": "Base.1.18.GeneralError", "Message": o.failure.message}}
	}
	return task
}

// accepted is the answer while an operation is going on.
func (s *Service) accepted(o *operation, dropped bool) *reply {
	header := http.Header{}
	header.Set("Location", monitorsPath+"/"+o.id)
	header.Set("Retry-After", strconv.Itoa(1))
	return &reply{status: http.StatusAccepted, header: header, body: o.taskResource(), dropped: dropped}
}

// getMonitor answers 202 while the operation is going on, and then what the operation would have been answered.
func (s *Service) getMonitor(r *http.Request, _ []byte) (*reply, *refusal) {
	struck := s.struck(call{operation: description.OperationPoll})
	if struck.has(description.FaultLostRequest) || struck.has(description.FaultLostReply) {
		return nil, &refusal{dropped: true}
	}
	if refused := struck.refusal(s.retryAfter()); refused != nil {
		return nil, refused
	}
	o := s.tasks[r.PathValue("task")]
	switch {
	case o == nil:
		return nil, notFound(r)
	case !o.hasEnded():
		return s.accepted(o, false), nil
	case o.failure != nil:
		return nil, o.failure
	}
	return &reply{status: http.StatusNoContent}, nil
}
