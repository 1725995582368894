// SPDX-License-Identifier: Apache-2.0

package fan

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fakeKubectl lists pods, and runs the command of exec as in a container.
const fakeKubectl = `#!/bin/sh
printf '[%s]' "$@" >>"$DIR/kubectl.log"; echo >>"$DIR/kubectl.log"
case "$*" in
*"get pods"*) [ -f "$DIR/pods.json" ] || { echo "The connection to the server was refused" >&2; exit 1; }; exec cat "$DIR/pods.json" ;;
esac
while [ "$1" != exec ]; do shift; done
export HOST=$4 HOME=$DIR
case $HOST in
nobtrun*) echo 'OCI runtime exec failed: exec: "btrun": executable file not found in $PATH: unknown' >&2
	echo "command terminated with exit code 126" >&2; exit 126 ;;
esac
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
`

// pod returns a pod as the API represents it.
func pod(namespace, name, node, phase string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": name, "namespace": namespace}, "spec": map[string]any{"nodeName": node},
		"status": map[string]any{"phase": phase},
	}
}

func podList(pods ...map[string]any) string {
	b, err := json.Marshal(map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{}, "items": pods})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestKubectl checks that one pod per node runs the object, and that pods that are not running are
// named.
func TestKubectl(t *testing.T) {
	f := newFleet(t)
	f.write("path/kubectl", fakeKubectl)
	f.write(
		"pods.json",
		podList(pod("ops", "n4", "node-a", "Running"), pod("ops", "n5", "node-a", "Running"),
			pod("ops", "n30", "node-b", "Running"), pod("ops", "n6", "node-c", "Pending"),
			pod("ops", "nobtrun", "node-d", "Running"), pod("ops", "n7", "node-c", "Running")),
	)
	out, errs := f.run(2, "--kubectl", "app=btrun", "--namespace", "ops", "--pod-container", "tools",
		"--kubectl-option=--context=prod", "--by", "host", "--allow", "signal", "x.o", "a b'c")
	if out != "@[node-a, all]: 4\n@[node-c, all]: 7\n@[node-b, all]: 30\n\n" {
		t.Errorf("report %q", out)
	}
	has(t, rows(errs), "pod n5 is left out: node node-a has another one\n",
		`node-d failed OCI runtime exec failed: exec: "btrun": executable file not found in $PATH: unknown: install btrun there`,
		"3 of 4 hosts")
	has(t, f.read("kubectl.log"),
		"[--context=prod][get][pods][--selector=app=btrun][--output=json][--namespace=ops]\n",
		"[--context=prod][exec][-i][--namespace=ops][n30][--container=tools][--][btrun][--remote][--allow=signal][-][a b'c]\n")
	f.write("pods.json", podList(pod("ops", "n6", "node-c", "Pending")))
	_, errs = f.run(1, "--kubectl", "app=btrun", "--all-namespaces", "x.o")
	has(t, rows(errs), "node-c failed pod n6 is Pending\n")
	f.write("pods.json", podList())
	_, errs = f.run(1, "--kubectl", "app=btrun", "x.o")
	has(t, errs, "btc: no pod has the labels app=btrun\n")
	f.write("pods.json", podList(pod("ops", "--kubeconfig=x", "node-c", "Running")))
	_, errs = f.run(1, "--kubectl", "app=btrun", "x.o")
	has(t, errs, `"--kubeconfig=x" is not the name of a host`)
	os.Remove(filepath.Join(f.dir, "pods.json"))
	_, errs = f.run(1, "--kubectl", "app=btrun", "x.o")
	has(t, errs, "The connection to the server was refused\n",
		"btc: cannot list the pods: kubectl get pods --selector=app=btrun --output=json: exit status 1\n")
}

// TestRealKubectl checks that the real kubectl accepts the arguments: a server that replaces the API
// server must receive the intended command.
func TestRealKubectl(t *testing.T) {
	kubectl, err := filepath.Abs("../../build/fleet/root/usr/bin/kubectl")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kubectl); err != nil {
		if kubectl, err = exec.LookPath("kubectl"); err != nil {
			t.Skip("skipped: no kubectl: tests/setup/fleet.sh unpacks one")
		}
	}
	var mu sync.Mutex
	var commands []string
	var containers []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/api/v1/namespaces/ops/pods":
			if r.URL.Query().Get("labelSelector") != "app=btrun" {
				t.Errorf("query for pods = %q", r.URL.RawQuery)
			}
			fmt.Fprint(w,
				strings.Replace(podList(pod("ops", "agent-1", "node-a", "Running")), `"List"`, `"PodList"`, 1))
		case strings.HasSuffix(r.URL.Path, "/pods/agent-1/exec"):
			mu.Lock()
			commands, containers = r.URL.Query()["command"], r.URL.Query()["container"]
			if r.URL.Query().Get("stdin") != "true" || r.URL.Query().Get("tty") == "true" {
				t.Errorf("query for exec = %q", r.URL.RawQuery)
			}
			mu.Unlock()
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w,
				`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no exec for you", "reason": "Forbidden", "code": 403}`)
		case strings.HasSuffix(r.URL.Path, "/pods/agent-1"):
			p := pod("ops", "agent-1", "node-a", "Running")
			p["kind"], p["apiVersion"] = "Pod", "v1"
			p["spec"] = map[string]any{"nodeName": "node-a", "containers": []any{map[string]any{"name": "tools"}}}
			json.NewEncoder(w).Encode(p)
		case r.URL.Path == "/api":
			fmt.Fprint(w, `{"kind": "APIVersions", "versions": ["v1"]}`)
		case r.URL.Path == "/apis":
			fmt.Fprint(w, `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`)
		case r.URL.Path == "/api/v1":
			fmt.Fprint(
				w,
				`{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "pods", "namespaced": true, "kind": "Pod", "verbs": ["get", "list"]},`+
					`{"name": "pods/exec", "namespaced": true, "kind": "PodExecOptions", "verbs": ["create", "get"]}]}`,
			)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w,
				`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
		}
	}))
	defer server.Close()
	f := newFleet(t)
	if err := os.Symlink(kubectl, filepath.Join(f.dir, "path/kubectl")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", filepath.Join(f.dir, "none"))
	t.Setenv("HOME", f.dir)
	_, errs := f.run(1, "--kubectl", "app=btrun", "--namespace", "ops", "--pod-container", "tools",
		"--kubectl-option=--server="+server.URL, "--every", "1s", "--timeout", "2s", "x.o", "a b'c")
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"btrun", "--remote", "--every=1s", "--timeout=2s", "-", "a b'c"}; !slices.Equal(commands,
		want) ||
		!slices.Equal(containers, []string{"tools"}) {
		t.Errorf("server received %q for containers %q, want %q\n%s", commands, containers, want, errs)
	}
	has(t, rows(errs), "node-a failed ", "no exec for you")
}
