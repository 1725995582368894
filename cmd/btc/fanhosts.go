// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"btc/fleet/fan"
	"btc/internal/arch"
	"btc/internal/option"
)

// fanHosts are the hosts of a fan, and how to reach them.
type fanHosts struct {
	files, names  []string
	sshOptions    []string
	sudo          bool
	selector      string
	namespace     string
	allNamespaces bool
	container     string
	kubectlArgs   []string
	btrun         string
	push          bool
	pushed        []string // files given by --push=FILE
	pushDir       string
}

func (h *fanHosts) table() option.Table {
	return option.Table{
		{Name: "hosts", Short: "H", Value: "FILE", Repeat: true, Group: "Hosts", To: &h.files,
			Help: "file with one ssh host name per line; # starts a comment, - is standard input; may be repeated"},
		{Name: "host", Value: "NAMES", Repeat: true, Group: "Hosts", To: h.addNames,
			Help: "hosts, separated by commas; may be repeated"},
		{Name: "ssh-option", Value: "OPTION", Repeat: true, Group: "Hosts", To: &h.sshOptions,
			Help: "option for ssh -o, such as Port=2222; may be repeated"},
		{Name: "sudo", Group: "Hosts", To: &h.sudo,
			Help: "run btrun with sudo -n"},
		{Name: "kubectl", Value: "SELECTOR", Group: "Hosts", To: &h.selector,
			Help: "run with kubectl exec in the pods with these labels, such as app=btrun, one on each node"},
		{Name: "namespace", Value: "NAME", Group: "Hosts", To: &h.namespace,
			Help: "namespace of the pods; default: kubectl's"},
		{Name: "all-namespaces", Group: "Hosts", To: &h.allNamespaces,
			Help: "pods of all namespaces"},
		{Name: "pod-container", Value: "NAME", Group: "Hosts", To: &h.container,
			Help: "container of the pods in which btrun runs; default: kubectl's choice"},
		{Name: "kubectl-option", Value: "OPTION", Repeat: true, Group: "Hosts", To: &h.kubectlArgs,
			Help: "option for kubectl, such as --context=prod; may be repeated"},
		{Name: "btrun", Value: "PATH", Group: "Hosts", To: &h.btrun,
			Help: "path of btrun on the hosts; default: btrun in their PATH"},
		{Name: "push", Value: "FILE", Optional: true, Repeat: true, Group: "Hosts", To: h.addPush,
			Help: "copy btrun to each host for the duration of the run: FILE, once for each architecture; default: btrun or btrun-ARCHITECTURE next to btc"},
		{Name: "push-dir", Value: "DIR", Group: "Hosts", To: &h.pushDir,
			Help: "directory on the hosts for --push; default: $TMPDIR or /tmp"},
	}
}

func (h *fanHosts) addNames(list string) error {
	for _, name := range strings.Split(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			h.names = append(h.names, name)
		}
	}
	return nil
}

func (h *fanHosts) addPush(file string) error {
	h.push = true
	if file != "" {
		h.pushed = append(h.pushed, file)
	}
	return nil
}

// reached returns the start of the command that reaches a host, up to the host.
type reached map[string][]string

// resolve returns the hosts, without duplicates.
func (h *fanHosts) resolve() (reached, []fan.Host, error) {
	switch ssh := len(h.files) + len(h.names) + len(h.sshOptions); {
	case h.selector == "" && (h.namespace != "" || h.allNamespaces || h.container != "" || len(h.kubectlArgs) > 0):
		return nil, nil, errors.New("--namespace, --all-namespaces, --pod-container and --kubectl-option need --kubectl SELECTOR")
	case h.selector != "" && ssh > 0:
		return nil, nil, errors.New("--kubectl cannot be combined with --hosts, --host and --ssh-option")
	case h.selector != "" && h.sudo:
		return nil, nil, errors.New("--sudo is for ssh: in a pod the user is that of the container")
	case !h.push && h.pushDir != "":
		return nil, nil, errors.New("--push-dir needs --push")
	case h.push && h.btrun != "":
		return nil, nil, errors.New("--btrun names a btrun that is on the hosts: it cannot be combined with --push")
	case h.selector != "":
		return h.pods()
	}
	names := slices.Clone(h.names)
	for _, name := range h.names {
		if err := checkHost(name); err != nil {
			return nil, nil, fmt.Errorf("--host: %w", err)
		}
	}
	for _, file := range h.files {
		more, err := readHosts(file)
		if err != nil {
			return nil, nil, err
		}
		names = append(names, more...)
	}
	if len(names) == 0 {
		return nil, nil, errors.New("no hosts: name a file with --hosts FILE, hosts with --host NAME, or pods with --kubectl SELECTOR")
	}
	reach := reached{}
	var hosts []fan.Host
	for _, name := range names {
		if reach[name] != nil {
			continue
		}
		args := []string{"ssh", "-T", "-o", "BatchMode=yes"}
		for _, o := range h.sshOptions {
			args = append(args, "-o", o)
		}
		reach[name] = append(args, "--", name)
		hosts = append(hosts, fan.Host{Name: name})
	}
	return reach, hosts, nil
}

// checkHost returns an error for a string that is not a host name.
func checkHost(name string) error {
	if strings.HasPrefix(name, "-") ||
		strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return fmt.Errorf("%q is not the name of a host", name)
	}
	return nil
}

// readHosts reads a file of hosts.
func readHosts(path string) ([]string, error) {
	in := os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	var names []string
	lines := bufio.NewScanner(io.LimitReader(in, 16<<20))
	for n := 1; lines.Scan(); n++ {
		name, _, _ := strings.Cut(lines.Text(), "#")
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if err := checkHost(name); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		names = append(names, name)
	}
	return names, lines.Err()
}

// podList is the output of kubectl get pods -o json, as far as it is used.
type podList struct {
	Items []struct {
		Metadata struct{ Name, Namespace, DeletionTimestamp string }
		Spec     struct{ NodeName string }
		Status   struct{ Phase, Reason string }
	}
}

// pods lists the pods. A node with several pods is one host, because each pod would trace the whole
// node.
func (h *fanHosts) pods() (reached, []fan.Host, error) {
	args := append(slices.Clone(h.kubectlArgs), "get", "pods", "--selector="+h.selector, "--output=json")
	switch {
	case h.allNamespaces:
		args = append(args, "--all-namespaces")
	case h.namespace != "":
		args = append(args, "--namespace="+h.namespace)
	}
	cmd := exec.Command("kubectl", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot list the pods: %s: %w", strings.Join(cmd.Args, " "), err)
	}
	var list podList
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, nil, fmt.Errorf("cannot list the pods: the output of kubectl is not JSON: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil, fmt.Errorf("no pod has the labels %s", h.selector)
	}
	reach := reached{}
	index := map[string]int{} // hosts by name
	var hosts []fan.Host
	for i := range list.Items {
		p := &list.Items[i]
		host := fan.Host{Name: p.Spec.NodeName}
		if host.Name == "" {
			host.Name = p.Metadata.Name
		}
		if err := errors.Join(checkHost(host.Name), checkHost(p.Metadata.Name), checkHost(p.Metadata.Namespace)); err != nil {
			return nil, nil, fmt.Errorf("cannot list the pods: %w", err)
		}
		switch {
		case p.Metadata.DeletionTimestamp != "":
			host.Problem = "pod " + p.Metadata.Name + " is being deleted"
		case p.Status.Phase != "Running":
			host.Problem = strings.TrimSpace("pod " + p.Metadata.Name + " is " + p.Status.Phase + " " + p.Status.Reason)
		}
		at, known := index[host.Name]
		switch {
		case !known:
			at = len(hosts)
			index[host.Name] = at
			hosts = append(hosts, host)
		case hosts[at].Problem != "" && host.Problem == "":
			hosts[at] = host
		default:
			if host.Problem == "" {
				fmt.Fprintf(os.Stderr, "btc: warning: pod %s is left out: node %s has another one\n", p.Metadata.Name,
					host.Name)
			}
			continue
		}
		args := append([]string{"kubectl"}, h.kubectlArgs...)
		args = append(args, "exec", "-i", "--namespace="+p.Metadata.Namespace, p.Metadata.Name)
		if h.container != "" {
			args = append(args, "--container="+h.container)
		}
		reach[host.Name] = append(args, "--")
	}
	return reach, hosts, nil
}

// receive is the shell script that accepts the program, runs it and removes it. $1 is the
// directory, $2 is "sudo" or empty, and btrun's arguments follow. The shell reads a line byte by
// byte, but head(1) may read more than it copies: so btc sends the object only after btrun has
// answered.
const receive = `umask 077
echo "` + fan.MachineMark + `$(uname -m)"
read -r size || exit 1
dir=$(mktemp -d "${1:-${TMPDIR:-/tmp}}/btrun.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 129' HUP
trap 'exit 143' TERM
head -c "$size" >"$dir/btrun" && chmod 700 "$dir/btrun" || exit 1
sudo=$2
shift 2
if [ -n "$sudo" ]; then sudo -n -- "$dir/btrun" "$@"; else "$dir/btrun" "$@"; fi
`

// command returns the command that runs btrun with arguments on a host.
func (h *fanHosts) command(reach reached, args []string) func(fan.Host) *exec.Cmd {
	program := h.btrun
	if program == "" {
		program = "btrun"
	}
	words := append([]string{program}, args...)
	switch {
	case h.push:
		sudo := ""
		if h.sudo {
			sudo = "sudo"
		}
		words = append([]string{"sh", "-c", receive, "sh", h.pushDir, sudo}, args...)
	case h.sudo:
		words = append([]string{"sudo", "-n", "--"}, words...)
	}
	if h.selector == "" {
		words = []string{"exec " + shellWords(words)}
	}
	return func(host fan.Host) *exec.Cmd {
		all := append(slices.Clone(reach[host.Name]), words...)
		return exec.Command(all[0], all[1:]...)
	}
}

// shellWords quotes words for a shell, because ssh passes a single string to the user's shell.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// programs returns a function that finds btrun for an architecture, as given by --push.
func (h *fanHosts) programs() (func(archLabel string) ([]byte, error), error) {
	named := map[string]string{}
	for _, file := range h.pushed {
		label, err := machineOf(file)
		if err != nil {
			return nil, fmt.Errorf("--push: %w", err)
		}
		named[label] = file
	}
	if len(h.pushed) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		dir := filepath.Dir(self)
		for _, a := range arch.All() {
			for _, name := range []string{"btrun", "btrun-" + a.Label, "btrun-" + a.GOARCH, "btrun-" + a.Name} {
				file := filepath.Join(dir, name)
				if label, err := machineOf(file); err == nil && label == a.Label && named[label] == "" {
					named[label] = file
				}
			}
		}
		if len(named) == 0 {
			return nil, fmt.Errorf("--push: no btrun in %s: name it with --push=FILE", dir)
		}
	}
	content := map[string][]byte{}
	for label, file := range named {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--push: %w", err)
		}
		content[label] = data
	}
	return func(label string) ([]byte, error) {
		if data := content[label]; data != nil {
			return data, nil
		}
		return nil, fmt.Errorf("--push has no btrun for %s: name one with --push=FILE", label)
	}, nil
}

// machineOf returns the architecture label of a program.
func machineOf(file string) (string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	a := arch.ByMachine(f.Machine)
	if a == nil || f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return "", fmt.Errorf("%s is not a program for an architecture that btrun supports", file)
	}
	return a.Label, nil
}
