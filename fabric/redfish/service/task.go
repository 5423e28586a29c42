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

func (t *tasks) getService(*http.Request) resource {
	return resource{
		"@odata.id": rootPath + "/TaskService", "@odata.type": "#TaskService.v1_2_1.TaskService", "Id": "TaskService",
		"Name": "Task Service", "ServiceEnabled": true, "Tasks": link(tasksPath),
	}
}

func (t *tasks) getAll(*http.Request) resource {
	byNumber := func(a, b *operation) int { return cmp.Or(cmp.Compare(len(a.id), len(b.id)), cmp.Compare(a.id, b.id)) }
	return collection(tasksPath, "TaskCollection", slices.SortedFunc(maps.Values(t.kept), byNumber), (*operation).taskResource)
}

func (t *tasks) get(r *http.Request) resource {
	if o := t.kept[r.PathValue("task")]; o != nil {
		return o.taskResource()
	}
	return nil
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
func (o *operation) accepted(dropped bool) *reply {
	header := http.Header{}
	header.Set("Location", monitorsPath+"/"+o.id)
	header.Set("Retry-After", strconv.Itoa(1))
	return &reply{status: http.StatusAccepted, header: header, body: o.taskResource(), dropped: dropped}
}

// getMonitor answers 202 while the operation is going on, and then what the operation would have been answered.
func (t *tasks) getMonitor(r *http.Request, _ []byte) (*reply, *refusal) {
	if refused := t.script.struck(call{operation: description.OperationPoll}).refusalToTell(); refused != nil {
		return nil, refused
	}
	o := t.kept[r.PathValue("task")]
	switch {
	case o == nil:
		return nil, notFound(r)
	case !o.hasEnded():
		return o.accepted(false), nil
	case o.failure != nil:
		return nil, o.failure
	}
	return &reply{status: http.StatusNoContent}, nil
}
