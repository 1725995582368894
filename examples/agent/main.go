// Command agent serves a histogram of a script for Prometheus to scrape: agent OBJECT.o @MAP ADDRESS.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"math"
	"net/http"
	"os"

	"btc/btrace"
)

func main() {
	object, err := btrace.Open(os.Args[1])
	check(err)
	session, err := btrace.Load(object, btrace.Options{DropEvents: true})
	check(err)
	defer session.Close()
	check(session.Attach(context.Background()))
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		snapshot, err := session.Map(os.Args[2]).Snapshot()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		w.Write(metrics(snapshot))
	})
	check(http.ListenAndServe(os.Args[3], nil))
}

// metrics writes a histogram for each key. All have all bounds, so that sum by (le) (...) is right.
func metrics(snapshot *btrace.Snapshot) []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, "# TYPE value histogram")
	for _, entry := range snapshot.Entries {
		hist, key := entry.Value.(*btrace.Hist), fmt.Sprint(entry.Key...)
		for bound, count := range hist.Cumulative() {
			le := fmt.Sprint(bound)
			if bound == math.MaxInt64 {
				le = "+Inf"
			}
			fmt.Fprintf(&b, "value_bucket{key=%q,le=%q} %d\n", key, le, count)
		}
		fmt.Fprintf(&b, "value_count{key=%q} %d\n", key, hist.Count())
	}
	return b.Bytes()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
