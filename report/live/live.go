// SPDX-License-Identifier: Apache-2.0

// Package live serves the page of a run while it goes on, to the user of this machine.
//
// It takes a function that returns what the page shows now, and serves the page and its data below a path that has a secret, to
// requests that name this server as their host, and that no page of another origin makes. It answers only GET and HEAD, and has
// nothing to change. Who listens, on loopback or on a Unix socket of the user, is the caller's.
package live

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"btc/report/page"
)

// Server serves one run.
type Server struct {
	token string
	hosts []string // values of Host; nil: any, on a Unix socket
	read  func() (*page.Data, error)

	mu    sync.Mutex
	text  []byte // the last data, as JSON
	title *page.Data
	next  time.Time // when it may be read again
}

// New returns the server of a run for a listener. read returns what the page shows now.
func New(l net.Listener, read func() (*page.Data, error)) (*Server, error) {
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	s := &Server{token: hex.EncodeToString(secret), read: read}
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		_, port, err := net.SplitHostPort(a.String())
		if err != nil {
			return nil, err
		}
		s.hosts = []string{a.String(), "localhost:" + port}
	}
	return s, nil
}

// Path is the path of the page, with its secret.
func (s *Server) Path() string { return "/" + s.token + "/" }

// URL is the address of the page on loopback.
func (s *Server) URL() string {
	if len(s.hosts) == 0 {
		return "http://localhost" + s.Path()
	}
	return "http://" + s.hosts[0] + s.Path()
}

// Serve serves until the listener is closed.
func (s *Server) Serve(l net.Listener) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	return server.Serve(l)
}

// pause is how long data is not read again, at least; it is four times as long as reading took.
const pause = 500 * time.Millisecond

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "this server only shows a run", http.StatusMethodNotAllowed)
		return
	case !s.ours(r):
		http.Error(w, "this request is not of the page", http.StatusForbidden)
		return
	}
	secret, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if subtle.ConstantTimeCompare([]byte(secret), []byte(s.token)) != 1 || rest != "" && rest != "data" {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	text, title, err := s.data()
	switch {
	case err != nil:
		http.Error(w, "the run has no data: "+err.Error(), http.StatusServiceUnavailable)
	case rest == "data":
		h.Set("Content-Type", "application/json")
		w.Write(text)
	default:
		var out bytes.Buffer
		if err := page.WriteLive(&out, title); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h.Set("Content-Type", "text/html; charset=utf-8")
		w.Write(out.Bytes())
	}
}

// ours reports whether a request is for this server, by its name, and of a person or of its own page: a name that resolves to
// this machine is of another page (DNS rebinding).
func (s *Server) ours(r *http.Request) bool {
	known := s.hosts == nil
	for _, host := range s.hosts {
		known = known || r.Host == host
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return known
	}
	return false
}

// data returns what the page shows, as JSON, and as it was read.
func (s *Server) data() ([]byte, *page.Data, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text != nil && time.Now().Before(s.next) {
		return s.text, s.title, nil
	}
	from := time.Now()
	d, err := s.read()
	if err == nil {
		s.title = d
		s.text, err = json.Marshal(d)
	}
	s.next = time.Now().Add(max(pause, 4*time.Since(from)))
	if err != nil {
		return nil, nil, err
	}
	return s.text, s.title, nil
}
