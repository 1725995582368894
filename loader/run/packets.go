// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/perfring"
)

// packetBuffer is the size of each CPU's buffer for packets that have not been written yet.
const packetBuffer = 1 << 20

// A record of the packet buffers is the event of skboutput() with its fields (time of the boot
// clock, number of packet bytes, bytes to skip at their start), followed by the packet.
const (
	packetTime = iota
	packetLength
	packetOffset
)

// packets writes the packets of skboutput() to their files. The kernel can copy packets only to a
// perf event array (perf buffer), so that is read in addition to the ring buffer.
type packets struct {
	session *session
	reader  *perfring.Output
	files   []*os.File
	writers map[string]*packetWriter // by file name
	event   format.Event
	failed  map[string]bool // files that failed on write
	done    sync.WaitGroup
}

// openPackets creates the files and starts reading; it returns nil if the script captures no
// packets.
func openPackets(s *session, m *ebpf.Map) (*packets, error) {
	if m == nil {
		return nil, nil
	}
	p := &packets{session: s, writers: map[string]*packetWriter{}, failed: map[string]bool{}}
	var err error
	if m.Type() != ebpf.PerfEventArray {
		return nil, fmt.Errorf("unexpected type of the packet map: %s", m.Type())
	}
	if p.reader, err = perfring.OpenOutput(m, packetBuffer); err != nil {
		return nil, fmt.Errorf("cannot create the buffers for packets: %w", err)
	}
	for i := range s.manifest.Events {
		e := &s.manifest.Events[i]
		if e.Kind != "skboutput" || p.writers[e.Format] != nil {
			continue
		}
		if err := p.open(e); err != nil {
			p.reader.Close()
			p.closeFiles()
			return nil, err
		}
	}
	p.done.Go(p.read)
	return p, nil
}

func (p *packets) open(e *manifest.Event) error {
	f, err := p.session.opts.Grants.Create(e.Format)
	if err != nil {
		return fmt.Errorf("skboutput(): cannot create its file: %w", err)
	}
	p.files = append(p.files, f)
	w, err := newPacketWriter(f)
	if err != nil {
		return fmt.Errorf("skboutput(): cannot write its file: %w", err)
	}
	p.writers[e.Format] = w
	return nil
}

// read writes packets until the buffers are closed, or flushed and empty.
func (p *packets) read() {
	for {
		record, err := p.reader.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			p.session.msg.warn(fmt.Sprintf("WARNING: packets: %v", err))
			return
		}
		p.write(record)
	}
}

// write decodes one record.
func (p *packets) write(record []byte) {
	e := &p.event
	if len(record) < 8 {
		return
	}
	size := binary.NativeEndian.Uint32(record[4:])
	if uint64(size) > uint64(len(record)) || e.Read(p.session.manifest, record[:size]) != nil || e.Kind != "skboutput" {
		return // not sent by one of the object's programs
	}
	// The kernel pads the record.
	data := record[size:]
	data = data[:min(uint64(len(data)), e.Uint(packetLength))]
	if e.Uint(packetOffset) >= uint64(len(data)) {
		return
	}
	at := p.session.host.Wall(e.Uint(packetTime), 0)
	err := p.writers[e.Format].Packet(uint64(at.UnixNano()), data[e.Uint(packetOffset):])
	if err != nil && !p.failed[e.Format] {
		p.failed[e.Format] = true
		p.session.msg.report(e.Pos, fmt.Errorf("skboutput(): %w", err))
	}
}

// drainTime is how long the end of a run waits for the remaining packets.
const drainTime = 5 * time.Second

// finish writes the remaining packets and stops capturing.
func (p *packets) finish() {
	if p == nil || p.reader == nil {
		return
	}
	reader := p.reader
	reader.Flush()
	late := time.AfterFunc(drainTime, reader.Stop)
	p.done.Wait()
	late.Stop()
	p.close()
	if reader.Lost > 0 {
		p.session.msg.warn(fmt.Sprintf("WARNING: lost %d packets: they are missing from the files of skboutput()", reader.Lost))
	}
}

func (p *packets) close() {
	if p == nil || p.reader == nil {
		return
	}
	p.reader.Stop()
	p.done.Wait()
	p.reader.Close()
	p.closeFiles()
	p.reader = nil
}

func (p *packets) closeFiles() {
	for _, f := range p.files {
		f.Close()
	}
}
