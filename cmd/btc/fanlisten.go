// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"btc/fleet/fan"
	"btc/fleet/merge"
	"btc/internal/manifest"
	"btc/internal/option"
	"btc/loader/format"
	"btc/loader/metrics"
	"btc/loader/output"
)

// Defaults of btc fan --listen.
const (
	listenEvery = 15 * time.Second
	// minFresh is the shortest time after which a host without a snapshot is not up.
	minFresh = 10 * time.Second
	// minScrape is the time in which all scrapes get the same document: merging many hosts takes time.
	minScrape = time.Second
)

// fanListen serves the merged metrics of a fan while hosts run.
type fanListen struct {
	address string // ""; no server
	remote  bool   // other machines may reach it
}

func (l *fanListen) table() option.Table {
	return option.Table{
		{Name: "listen", Value: "ADDRESS", To: &l.address,
			Help: "serve the merged maps for Prometheus at http://ADDRESS/metrics while the hosts run, such as 127.0.0.1:9435 or :9435 of this machine only; with --by host each series has the host; hosts send snapshots each --every TIME, default: " + listenEvery.String()},
		{Name: "listen-remote", To: &l.remote,
			Help: "with --listen: permit an address that other machines reach; there is neither TLS nor authentication, which a proxy can add"},
	}
}

// open opens the port.
func (l *fanListen) open() (net.Listener, error) {
	host, port, err := net.SplitHostPort(l.address)
	if n, e := strconv.Atoi(l.address); e == nil && n >= 0 {
		host, port, err = "", l.address, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--listen: %q is not an address such as 127.0.0.1:9435", l.address)
	}
	if host == "" && !l.remote {
		host = "127.0.0.1"
	}
	if ip, err := netip.ParseAddr(host); !l.remote && host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("--listen: other machines may reach %s, and there is neither TLS nor authentication: listen on 127.0.0.1 behind a proxy that has them, or add --listen-remote", host)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return listener, nil
}

// fanServer answers scrapes.
type fanServer struct {
	hosts    []fan.Host
	snapshot func() (runs *merge.Runs, up []bool)
	lost     func() uint64
	report   *mergedReport
	base     *manifest.Manifest
	name     string // of the object
	started  time.Time
	local    bool // requests name this machine

	mu       sync.Mutex
	sampler  *output.Sampler
	made     time.Time // when document was
	document []byte
}

// ServeHTTP answers a scrape of /metrics.
func (s *fanServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case s.local && !isLocal(r.Host):
		// A name that a page of another site may have chosen (DNS rebinding).
		http.Error(w, "unexpected Host: use the address of --listen; a proxy must send it, too", http.StatusForbidden)
	case r.URL.Path != "/metrics":
		http.Error(w, "the metrics are at /metrics", http.StatusNotFound)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
	default:
		w.Header().Set("Content-Type", output.ContentType(s.open()))
		w.Write(s.scrape())
	}
}

// open reports whether the format is OpenMetrics.
func (s *fanServer) open() bool { return s.report.form == "openmetrics" }

// isLocal reports whether a Host header names this machine by address or as localhost.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || host == "localhost"
}

// scrape returns the metrics of all hosts.
func (s *fanServer) scrape() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.document != nil && time.Since(s.made) < minScrape {
		return s.document
	}
	runs, up := s.snapshot()
	merged, maps := runs.Maps(s.base)
	run := &output.Run{
		Manifest: merged, Env: &format.Env{}, Object: s.name, Buckets: s.report.buckets, MaxSeries: s.report.maxSeries,
		Started: s.started, At: time.Now(), Message: func(string) {},
		Losses: func() []output.Loss { return []output.Loss{{Cause: "events", N: s.lost()}} },
	}
	states := output.Family{Name: metrics.HostUp, Kind: metrics.Gauge, Help: metrics.HostUpHelp, Labels: []string{metrics.HostLabel}}
	for i := range s.hosts {
		x := output.Series{Values: []string{strings.ToValidUTF8(s.hosts[i].Name, "\uFFFD")}}
		if up[i] {
			x.Value = 1
		}
		states.Series = append(states.Series, x)
	}
	run.More = []output.Family{states}
	if s.sampler == nil {
		s.sampler = output.NewSampler(run)
	} else {
		s.sampler = s.sampler.Next(run)
	}
	s.document = s.sampler.Exposition(s.open(), func(show func(*output.Map)) {
		for i := range maps {
			show(&maps[i])
		}
	}, true)
	s.made = time.Now()
	return s.document
}

// serve answers scrapes until the function that it returns is called.
func (s *fanServer) serve(l net.Listener) (stop func() error) {
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "btc: --listen:", err)
		}
	}()
	return server.Close
}
