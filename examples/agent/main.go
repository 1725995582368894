// Command agent serves a histogram of a script for Prometheus to scrape: agent OBJECT.o @MAP ADDRESS.
package main

import (
	"context"
	"fmt"
	"log"
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
		check(err)
		for _, entry := range snapshot.Entries {
			hist, total := entry.Value.(*btrace.Hist), uint64(0)
			for b := range hist.Buckets() {
				total += b.Count
				fmt.Fprintf(w, "value_bucket{key=%q,le=\"%d\"} %d\n", fmt.Sprint(entry.Key...), b.High, total)
			}
			fmt.Fprintf(w, "value_bucket{key=%[1]q,le=\"+Inf\"} %[2]d\nvalue_count{key=%[1]q} %[2]d\n", fmt.Sprint(entry.Key...), total)
		}
	})
	log.Fatal(http.ListenAndServe(os.Args[3], nil))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
