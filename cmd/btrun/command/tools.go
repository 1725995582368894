// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"btc/internal/safefile"
	"btc/internal/spell"
	"btc/loader/diag"
)

// packagedTools is where packages install tools: objects, their scripts, and an index with a line "NAME  what it shows" for each.
var packagedTools = "/usr/share/btc/tools"

// toolDirs returns the directories of tools: that of packages, then those of BTRUN_PATH, unless a policy or sudo is between the
// user and the privileges of btrun. Relative ones, and so the current directory, are never searched.
func (o *arguments) toolDirs() []string {
	dirs := []string{packagedTools}
	if o.policy == nil && (os.Getuid() != 0 || !safefile.HasCaller()) {
		for _, dir := range filepath.SplitList(os.Getenv("BTRUN_PATH")) {
			if filepath.IsAbs(dir) {
				dirs = append(dirs, filepath.Clean(dir))
			}
		}
	}
	return dirs
}

// findTool replaces the name of a tool by the path of its object, which only root or the caller can change.
func (o *arguments) findTool() error {
	name := o.object
	if name == "" || name == streamed || o.bundle != nil || strings.Contains(name, "/") || strings.HasSuffix(name, ".o") || strings.HasSuffix(name, ".bt") {
		return nil
	}
	dirs := o.toolDirs()
	for _, dir := range dirs {
		path := dir + "/" + name + ".o"
		if _, err := os.Lstat(path); err == nil {
			if o.object = path; !safefile.OfRootOrCaller(path) {
				return errors.New(path + ": not run by its name, because other users can change it, or its directory, or it is a symbolic link")
			}
			return nil
		}
	}
	if file, _ := asCaller(o, func(path string) (bool, error) { _, err := os.Stat(path); return err == nil, err }); file {
		return nil // the error of an object says more
	}
	if hint, _ := asCaller(o, o.meant); hint != "" {
		return errors.New("cannot read the object: " + name + ": no such file or tool; " + hint)
	}
	hint := "btrun --tools lists the tools"
	if near := spell.Nearest(name, toolNames(dirs)); near != "" {
		hint = "did you mean " + near + "?"
	}
	if len(dirs) == 1 && os.Getenv("BTRUN_PATH") != "" {
		dirs[0] += " (BTRUN_PATH does not apply under sudo or a policy)"
	}
	return fmt.Errorf("no tool %s in %s; %s", name, strings.Join(dirs, ", "), hint)
}

// toolNames returns the names of the tools in directories, in order.
func toolNames(dirs []string) (all []string) {
	for _, dir := range dirs {
		entries, _ := safefile.List(dir, 10000)
		for _, e := range entries {
			if name, ok := strings.CutSuffix(e, ".o"); ok {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return all
}

// listTools prints a line for each tool: that of the index of its directory, or its name.
func (o *arguments) listTools(w io.Writer) {
	for _, dir := range o.toolDirs() {
		index, _ := safefile.Read(dir+"/index", 1<<20)
		for _, name := range toolNames([]string{dir}) {
			line := name
			for text := range strings.Lines(string(index)) {
				if strings.HasPrefix(text, name+" ") {
					line = strings.TrimRight(text, "\n")
				}
			}
			fmt.Fprintln(w, diag.Printable(line))
		}
	}
}
