// SPDX-License-Identifier: Apache-2.0

package live

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"btc/report/page"
)

// TestRequests checks who is answered.
func TestRequests(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := New(l, func() (*page.Data, error) {
		b := page.NewBuilder()
		b.Data.Host = "web1"
		return b.Finish(), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	_, port, _ := net.SplitHostPort(host)
	for _, x := range []struct {
		method, path, host, origin, site string
		status                           int
	}{
		{"GET", s.Path(), host, "", "", 200},
		{"GET", s.Path(), "localhost:" + port, "", "none", 200},
		{"GET", s.Path() + "data", host, "http://" + host, "same-origin", 200},
		{"HEAD", s.Path(), host, "", "", 200},
		{"POST", s.Path(), host, "", "", 405},
		{"PUT", s.Path() + "data", host, "", "", 405},
		{"GET", "/", host, "", "", 404},
		{"GET", "/data", host, "", "", 404},
		{"GET", s.Path() + "x", host, "", "", 404},
		{"GET", "/" + strings.Repeat("0", 32) + "/", host, "", "", 404},
		{"GET", s.Path()[:32] + "/", host, "", "", 404},
		{"GET", s.Path(), "evil.example:" + port, "", "", 403},
		{"GET", s.Path(), "127.0.0.1", "", "", 403},
		{"GET", s.Path() + "data", host, "http://evil.example", "", 403},
		{"GET", s.Path() + "data", host, "null", "", 403},
		{"GET", s.Path(), host, "", "cross-site", 403},
		{"GET", s.Path(), host, "", "same-site", 403},
	} {
		r := httptest.NewRequest(x.method, "http://"+x.host+x.path, nil)
		r.Host = x.host
		if x.origin != "" {
			r.Header.Set("Origin", x.origin)
		}
		if x.site != "" {
			r.Header.Set("Sec-Fetch-Site", x.site)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != x.status {
			t.Errorf("%+v: status %d", x, w.Code)
		}
		if h := w.Header(); h.Get("Cache-Control") != "no-store" || h.Get("X-Frame-Options") != "DENY" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%+v: headers %v", x, h)
		}
		if x.status != 200 && strings.Contains(w.Body.String(), "web1") {
			t.Errorf("%+v: has the data", x)
		}
	}
}

// TestServe reads the page and its data over the network.
func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(l, func() (*page.Data, error) {
		b := page.NewBuilder()
		b.Data.Host = "web1"
		return b.Finish(), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	r, err := http.Get(s.URL() + "data")
	if err != nil {
		t.Fatal(err)
	}
	var d page.Data
	if err := json.NewDecoder(r.Body).Decode(&d); err != nil || d.Host != "web1" {
		t.Errorf("%+v, %v", d, err)
	}
	r.Body.Close()
	l.Close()
	<-done
}
