// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestKubernetes checks the manifest of docs/howto/kubernetes.md: its labels are those that btc fan selects, its pods may
// do what docs/howto/image.md says and no more, and every volume that is mounted exists.
func TestKubernetes(t *testing.T) {
	data, err := os.ReadFile("../../examples/kubernetes/btrun.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/howto/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile("../../docs/howto/image.md")
	if err != nil {
		t.Fatal(err)
	}
	type named struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
		ConfigMap *named `yaml:"configMap"`
	}
	type document struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
		Spec     struct {
			Selector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			}
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					HostPID     bool `yaml:"hostPID"`
					HostNetwork bool `yaml:"hostNetwork"`
					Containers  []struct {
						Args            []string
						VolumeMounts    []named `yaml:"volumeMounts"`
						SecurityContext struct {
							Privileged               bool
							ReadOnlyRootFilesystem   bool `yaml:"readOnlyRootFilesystem"`
							AllowPrivilegeEscalation bool `yaml:"allowPrivilegeEscalation"`
							Capabilities             struct{ Add, Drop []string }
						} `yaml:"securityContext"`
					}
					Volumes []named
				}
			}
		}
	}
	kinds := map[string]document{}
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var x document
		err := d.Decode(&x)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		kinds[x.Kind] = x
	}
	set := kinds["DaemonSet"]
	pod := set.Spec.Template.Spec
	if len(kinds) != 2 || kinds["Namespace"].Metadata.Name != set.Metadata.Namespace || len(pod.Containers) != 1 {
		t.Fatalf("%+v", kinds)
	}
	if set.Spec.Selector.MatchLabels["app"] != "btrun" || set.Spec.Template.Metadata.Labels["app"] != "btrun" ||
		!bytes.Contains(page, []byte("--kubectl app=btrun --namespace "+set.Metadata.Namespace+" --btrun /btrun")) {
		t.Error("btc fan of the page does not select the pods")
	}
	c := pod.Containers[0]
	s := c.SecurityContext
	if !pod.HostPID || pod.HostNetwork || s.Privileged || !s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) ||
		!bytes.Contains(image, []byte("add: ["+strings.Join(s.Capabilities.Add, ", ")+"]")) {
		t.Errorf("%+v", s)
	}
	if last := c.Args[len(c.Args)-1]; !bytes.Contains(page, []byte("--from-file="+last)) || !bytes.Contains(page, []byte("-o "+last+"\n")) {
		t.Errorf("the page does not make %s", last)
	}
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v named) bool { return v.Name == m.Name })
		if i < 0 || !m.ReadOnly || m.MountPath == "" {
			t.Errorf("mount %+v, volumes %+v", m, pod.Volumes)
			continue
		}
		if from := pod.Volumes[i].ConfigMap; from != nil && !bytes.Contains(page, []byte("create configmap "+from.Name+" ")) {
			t.Errorf("the page does not make the config map %s", from.Name)
		}
	}
}
