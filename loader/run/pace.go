package run

import "time"

// Times between two looks at the events.
const (
	shortRest = time.Millisecond       // the first, when nothing has come for some time
	longRest  = 100 * time.Millisecond // the longest while events come: what one waits at most
	longSleep = time.Second            // the longest while none comes; losses are looked up as often
)

// pace is how long the reader of the events waits when it has read all.
//
// While events come it rests between two looks, and programs do not wake it: an
// interrupt at each event would cost the traced programs more than all else. The
// rests grow to 100 ms, so that what comes first is shown at once, and a stream
// costs ten turns a second. When a rest brought nothing it sleeps, and says so in
// the programs' global asleep: the next event wakes it. So an idle run costs a
// turn a second, and an event that comes alone is shown at once.
type pace struct {
	asleep setter        // nil: the programs do not know it, and each wait is a rest
	busy   bool          // an event came since the last wait
	rest   time.Duration // the last
	sleeps bool          // and says so
}

// setter is an *ebpf.Variable.
type setter interface{ Set(any) error }

// Values of the global asleep: programs flip these bits in the flags of the ring buffer's
// helpers, where they have BPF_RB_NO_WAKEUP otherwise. Then the kernel wakes the
// reader for a record when all before it were read.
const (
	awake    = uint64(0)
	sleeping = uint64(1)
)

// wait waits for events. often says that the run has other things to look at, ten
// times a second.
func (p *pace) wait(events *source, often bool) error {
	if p.busy || p.asleep == nil || p.rest == 0 {
		p.wakeUp()
		p.rest = min(max(4*p.rest, shortRest), longRest)
		p.busy = false
		return events.wait(p.rest)
	}
	d := longRest
	if p.sleeps {
		p.rest = shortRest / 4
		if !often {
			d = longSleep
		}
	} else if p.asleep.Set(sleeping) != nil {
		p.asleep = nil
		return events.wait(longRest)
	}
	// A program that looked at the global before that, and sends its event after our
	// look at the buffer, wakes no one: the first sleep is a short one.
	p.sleeps = true
	if events.waiting() { // by now, or being written
		d = shortRest
	}
	err := events.wait(d)
	if events.waiting() {
		p.wakeUp()
	}
	return err
}

// wakeUp ends a sleep. What could be set before can be set again.
func (p *pace) wakeUp() {
	if p.sleeps {
		p.sleeps = false
		p.asleep.Set(awake)
	}
}
