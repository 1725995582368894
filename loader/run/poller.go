// SPDX-License-Identifier: Apache-2.0

package run

import "time"

// Intervals between reads of the events.
const (
	shortRest  = time.Millisecond      // the first of a series
	middleRest = 3 * time.Millisecond  // the longest below busyRate
	longRest   = 16 * time.Millisecond // the longest of all: the maximum latency of an event
	shortSleep = 10 * time.Millisecond // the first sleep of a series
	watchSleep = 100 * time.Millisecond
	longSleep  = time.Second // the longest without events; losses are checked as often
)

// Event rates, per second.
const (
	slowRate = 500  // below it, each event wakes the reader
	busyRate = 1200 // at this rate or above, events are read every longRest
)

// The rate is measured over this many events or this much time, whichever comes first.
const (
	rateEvents = 16
	rateTime   = 30 * time.Millisecond
)

// poller decides how long the event reader waits when it has read everything. A sleeping reader
// sets the programs' global asleep, and the next event wakes it: at low rates an event is handled
// at once, and an idle run wakes up once a second. A wake-up costs the traced program an interrupt,
// so at high rates the reader polls, with rests in between, and programs do not wake it. Rests grow
// from 1 ms to 16 ms (3 ms at medium rates). After a rest without events the reader sleeps again.
type poller struct {
	asleep setter        // nil: the programs have no such global, and each wait is a rest
	rest   time.Duration // the last rest; 0: none since the last sleep
	sleeps bool          // and has set asleep

	rate  float64   // events per second, as last measured
	count int       // events since begin
	begin time.Time // start of the measurement
	now   func() time.Time
}

// setter is an *ebpf.Variable.
type setter interface{ Set(any) error }

// Values of the global asleep. Programs XOR them into the flags of the ring buffer helpers, which
// are BPF_RB_NO_WAKEUP otherwise. When the reader sleeps, the kernel wakes it for a record if all
// earlier records have been read.
const (
	awake    = uint64(0)
	sleeping = uint64(1)
)

// wait waits for events; handled is the number of events since the last wait. often means that the
// run has other things to check ten times a second.
func (p *poller) wait(events *source, handled int, often bool) error {
	p.measure(handled)
	if p.asleep == nil || p.rate >= slowRate && handled > 0 {
		return p.doze(events)
	}
	p.rest = 0
	d := longSleep
	if often {
		d = watchSleep
	}
	if !p.sleeps {
		// A program that read the global earlier, and sends its event after the reader has checked
		// the buffer, does not wake the reader: so the first sleep is short.
		d = shortSleep
		p.sleeps = p.asleep.Set(sleeping) == nil
		if !p.sleeps {
			p.asleep = nil
			return events.wait(longRest)
		}
	}
	return events.sleep(d)
}

// doze waits without wake-ups by the programs, except for events that must be handled at once.
func (p *poller) doze(events *source) error {
	if p.sleeps {
		p.sleeps = false
		p.asleep.Set(awake) // it worked before, so it works again
	}
	longest := longRest
	if p.rate < busyRate {
		longest = middleRest
	}
	p.rest = min(max(2*p.rest, shortRest), longest)
	return events.wait(p.rest)
}

// measure updates the event rate.
func (p *poller) measure(handled int) {
	p.count += handled
	now := p.clock()
	took := now.Sub(p.begin)
	if p.count < rateEvents && took < rateTime {
		return
	}
	p.rate = float64(p.count) / max(took, time.Millisecond).Seconds()
	p.count, p.begin = 0, now
}

func (p *poller) clock() time.Time {
	if p.now != nil {
		return p.now()
	}
	return time.Now()
}
