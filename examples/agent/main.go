// Command agent serves the maps of a script for Prometheus to scrape: agent OBJECT.o ADDRESS.
package main

import (
	"context"
	"log"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"btc/btrace"
	"btc/btrace/promcollector"
)

func main() {
	object, err := btrace.Open(os.Args[1])
	check(err)
	session, err := btrace.Load(object, btrace.Options{DropEvents: true})
	check(err)
	defer session.Close()
	check(session.Attach(context.Background()))
	collector, err := promcollector.New(session, btrace.MetricOptions{})
	check(err)
	prometheus.MustRegister(collector)
	http.Handle("/metrics", promhttp.Handler())
	check(http.ListenAndServe(os.Args[2], nil))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
