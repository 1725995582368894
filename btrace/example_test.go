// SPDX-License-Identifier: Apache-2.0

package btrace_test

import (
	"context"
	"embed"
	"fmt"
	"log"
	"time"

	"btc/btrace"
)

// A session prints what a script prints, for ten seconds.
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

// Objects are embedded by //go:embed reads.o reads.json
func ExampleOpenFS() {
	var files embed.FS
	object, err := btrace.OpenFS(files, "reads.o")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(object.Probes())
}

// The two files of an object may come from anywhere.
func ExampleParse() {
	var object, manifest []byte // from a registry, a database, ...
	if _, err := btrace.Parse(object, manifest); err != nil {
		log.Fatal(err)
	}
}

// Parameters are given when the object is loaded: $1 and getopt("depth") of the script.
func ExampleLoad() {
	object, err := btrace.Open("slow.o")
	if err != nil {
		log.Fatal(err)
	}
	session, err := btrace.Load(object, btrace.Options{
		Args:   []string{"1000"},
		Params: map[string]string{"depth": "5"},
		PID:    1234,
		Allow:  []string{"signal"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
}

// A session may be limited to processes and what they start, to cgroups, or to containers and pods, for
// which it can wait.
func ExampleLoadContext() {
	object, err := btrace.Open("reads.o")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	session, err := btrace.LoadContext(ctx, object, btrace.Options{
		Pods:   []string{"shop/cart"},
		Wait:   true,
		Budget: 0.02,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
}

// Two objects run at the same time; each has a session of its own.
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

// Stop detaches; what programs have sent before is still among the events.
func ExampleSession_Stop() {
	var session *btrace.Session
	time.AfterFunc(time.Minute, session.Stop)
	for event := range session.Events() {
		fmt.Print(event.Text)
	}
	code, err := session.Wait()
	fmt.Println(code, err)
}

// Values of an event go into variables.
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

// Each interval is counted by itself.
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

// A map is read while its script runs.
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

// What was lost is a number.
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

// Histograms of two hosts are those of one that counted both.
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

// Values of one aggregation become that of one map.
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
