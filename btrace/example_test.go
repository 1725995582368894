// SPDX-License-Identifier: Apache-2.0

package btrace_test

import (
	"context"
	"embed"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"btc/btrace"
)

// A session that prints the output of a script for ten seconds.
func Example() {
	object, err := btrace.Open("opens.o")
	if err != nil {
		log.Fatal(err)
	}
	session, err := btrace.Load(object, btrace.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := session.Attach(ctx); err != nil {
		log.Fatal(err)
	}
	for event := range session.Events() {
		fmt.Print(event.Text)
	}
}

// The object is embedded by //go:embed reads.o reads.json
func ExampleOpenFS() {
	var files embed.FS
	object, err := btrace.OpenFS(files, "reads.o")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(object.Probes())
}

// The object and its manifest may come from anywhere.
func ExampleParse() {
	var object, manifest []byte // from a registry, a database, ...
	if _, err := btrace.Parse(object, manifest); err != nil {
		log.Fatal(err)
	}
}

// An object and its manifest may arrive on one stream: cat opens.o opens.json | agent
func ExampleRead() {
	object, err := btrace.Read(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(object.Source())
}

// A dry run asks the kernel's verifier whether this host can run the object.
func ExampleOptions() {
	object, err := btrace.Open("opens.o")
	if err != nil {
		log.Fatal(err)
	}
	session, err := btrace.Load(object, btrace.Options{DryRun: true})
	if err != nil {
		log.Fatal(err)
	}
	session.Close()
}

// A session writes metrics for ten minutes, and prints nothing else.
func ExampleLoadReport() {
	object, err := btrace.Open("reads.o")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	session, err := btrace.LoadReport(ctx, object, btrace.Options{Timeout: 10 * time.Minute}, &btrace.Report{
		Out: os.Stdout, Err: os.Stderr, Format: "openmetrics", Every: 15 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	if err := session.Attach(ctx); err != nil {
		log.Fatal(err)
	}
	code, err := session.Wait()
	fmt.Println(code, err)
}

// A program like btrun is one session. Its main function and this one run on the main thread if an
// init function calls runtime.LockOSThread: tid equals pid in begin and end.
func ExampleProcess() {
	object, err := btrace.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	session, err := btrace.LoadReport(ctx, object, btrace.Options{
		Args: os.Args[2:], Getenv: os.Getenv, Process: &btrace.Process{DropPrivileges: true},
	}, &btrace.Report{Out: os.Stdout, Err: os.Stderr})
	if err != nil {
		log.Fatal(err)
	}
	if err := session.Attach(ctx); err != nil {
		session.Close()
		log.Fatal(err)
	}
	code, err := session.Wait()
	session.Close()
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

// SIGUSR1 shows the maps as they are now, and a second SIGINT does not wait for the session's end.
func ExampleSession_PrintMaps() {
	var session *btrace.Session // with a Report that is Live
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGUSR1, unix.SIGINT)
	for stopping := false; ; {
		switch s := <-signals; {
		case s == unix.SIGUSR1:
			session.PrintMaps()
		case stopping:
			session.RestoreTerminal()
			os.Exit(1)
		default:
			stopping = true
			session.Stop()
		}
	}
}

// Parameters are set when the object is loaded: $1 and getopt("depth") of the script.
func ExampleLoad() {
	object, err := btrace.Open("slow.o")
	if err != nil {
		log.Fatal(err)
	}
	session, err := btrace.Load(object, btrace.Options{
		Args:   []string{"1000"},
		Params: map[string]string{"depth": "5"},
		PID:    1234,
		Allow:  []btrace.Permission{btrace.AllowSignal},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
}

// A session may be limited to processes with their descendants, to cgroups, or to containers and pods,
// which it can wait for.
func ExampleLoadContext() {
	object, err := btrace.Open("reads.o")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	session, err := btrace.LoadContext(ctx, object, btrace.Options{
		Pods: []string{"shop/cart"}, Wait: true, Budget: 0.02,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
}

// Two objects run at the same time, each in its own session.
func ExampleSession_Attach() {
	for _, path := range []string{"reads.o", "opens.o"} {
		object, err := btrace.Open(path)
		if err != nil {
			log.Fatal(err)
		}
		session, err := btrace.Load(object, btrace.Options{PIDs: []int{1234}, FollowForks: true})
		if err != nil {
			log.Fatal(err)
		}
		defer session.Close()
		if err := session.Attach(context.Background()); err != nil {
			log.Fatal(err)
		}
		fmt.Println(path, session.Attached())
	}
}

// Stop detaches; events that were sent before can still be read.
func ExampleSession_Stop() {
	var session *btrace.Session
	time.AfterFunc(time.Minute, session.Stop)
	for event := range session.Events() {
		fmt.Print(event.Text)
	}
	code, err := session.Wait()
	fmt.Println(code, err)
}

// The values of an event are scanned into variables.
func ExampleSession_Events() {
	var session *btrace.Session
	for event := range session.Events() {
		var pid int
		var comm string
		if event.Kind == btrace.Printf && event.Scan(&pid, &comm) == nil {
			fmt.Println(pid, comm)
		}
	}
}

// Each interval is counted separately.
func ExampleMap_Take() {
	var session *btrace.Session
	for range time.Tick(time.Second) {
		reads, err := session.Map("@reads").Take()
		if err != nil {
			log.Fatal(err)
		}
		for _, e := range reads.Entries {
			fmt.Println(e.Key[0], e.Value.(btrace.Count))
		}
	}
}

// A map can be read while its script runs.
func ExampleMap_Snapshot() {
	var session *btrace.Session
	bytes, err := session.Map("@bytes").Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	if v, ok := bytes.Get("nginx"); ok {
		fmt.Println(v.(*btrace.Hist).Quantile(0.99))
	}
}

// The stacks that occur most often, without parsing any text.
func ExampleSnapshot_Top() {
	var session *btrace.Session
	samples, err := session.Map("@samples").Snapshot() // @samples[ustack] = count()
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range samples.Top(10) {
		fmt.Println(e.Value)
		for _, f := range e.Key[0].(btrace.Stack).Frames {
			fmt.Println("  ", f.Function, f.Offset, f.Module, f.File, f.Line)
		}
	}
}

// A program without a library of metrics answers Prometheus itself.
func ExampleSession_WriteMetrics() {
	var session *btrace.Session
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", btrace.MetricsContentType("openmetrics"))
		if err := session.WriteMetrics(w, "openmetrics"); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// Losses are counted.
func ExampleSession_Losses() {
	var session *btrace.Session
	if l := session.Losses(); l.Any() {
		fmt.Printf("%d events lost, %d updates of @reads\n", l.Events, l.Updates["@reads"])
	}
}

func ExampleHist_Quantile() {
	h := &btrace.Hist{Linear: true, Min: 0, Max: 100, Step: 10, Counts: []uint64{0, 50, 30, 20}}
	fmt.Println(h.Count(), h.Quantile(0.5), h.Quantile(0.9))
	// Output: 100 9 24.5
}

// Merging the histograms of two hosts gives the histogram of all values.
func ExampleHist_Merge() {
	a := &btrace.Hist{Counts: []uint64{0, 1, 2}}
	b := &btrace.Hist{Counts: []uint64{0, 3, 0, 4}}
	if err := a.Merge(b); err != nil {
		log.Fatal(err)
	}
	for bucket := range a.Buckets() {
		fmt.Printf("%d..%d: %d\n", bucket.Low, bucket.High, bucket.Count)
	}
	// Output:
	// 0..0: 4
	// 1..1: 2
	// 2..3: 4
}

func ExampleSnapshot_Merge() {
	a := &btrace.Snapshot{
		Name:    "@",
		Shape:   "count",
		Entries: []btrace.Entry{{Key: []btrace.Value{"sh"}, Value: btrace.Count(2)}},
	}
	b := &btrace.Snapshot{
		Name:    "@",
		Shape:   "count",
		Entries: []btrace.Entry{{Key: []btrace.Value{"sh"}, Value: btrace.Count(3)}},
	}
	if err := a.Merge(b); err != nil {
		log.Fatal(err)
	}
	fmt.Println(a.Get("sh"))
	// Output: 5 true
}

func ExampleScan() {
	var size uint32
	var name string
	err := btrace.Scan([]btrace.Value{uint64(512), "a.txt"}, &size, &name)
	fmt.Println(size, name, err)
	// Output: 512 a.txt <nil>
}

// Merge combines values of the same aggregation.
func ExampleMerge() {
	sum, err := btrace.Merge(btrace.Count(2), btrace.Count(40))
	fmt.Println(sum, err)
	// Output: 42 <nil>
}

func ExampleScanValue() {
	var name string
	err := btrace.ScanValue("a.txt", &name)
	fmt.Println(name, err)
	// Output: a.txt <nil>
}
