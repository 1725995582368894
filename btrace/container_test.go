// SPDX-License-Identifier: Apache-2.0

package btrace_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"btc/btrace"
)

// TestContainers checks that a missing container is an error, or is waited for until the context is
// done.
func TestContainers(t *testing.T) {
	mount := inOwnMounts(t)
	if mount == "" {
		return
	}
	o := parsed(t, `profile:hz:9 { @ = count(); }`)
	for _, opts := range []btrace.Options{{Containers: []string{"btc-none"}}, {Pods: []string{"btc/none"}}} {
		if _, err := btrace.Load(o, opts); err == nil || !strings.Contains(err.Error(), "none") {
			t.Errorf("error = %v", err)
		}
		opts.Wait = true
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		begin := time.Now()
		_, err := btrace.LoadContext(ctx, o, opts)
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took < 300*time.Millisecond ||
			took > time.Minute {
			t.Errorf("error = %v after %v", err, took)
		}
		cancel()
	}
}
