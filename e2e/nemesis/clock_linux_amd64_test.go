package nemesis

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// clocksJump says whether setClock works here.
const clocksJump = true

// A process reads the time by a function that the kernel maps into it (the vDSO), and the
// kernel has one clock for all. So a process with a clock of its own gets a function of
// its own: a few instructions at the end of the vDSO's mapping, which call the kernel's and
// add so many seconds to the wall's time. The monotonic time stays, as it does when
// somebody sets a clock. Go's runtime has the function's address in a variable, which is
// found by its value.

// clockCode is the function. It ends before clockShift; of the kernel's, the address is
// put in at clockKernel.
var clockCode = []byte{
	0x57,                   // push rdi
	0x56,                   // push rsi
	0x48, 0x83, 0xec, 0x08, // sub rsp, 8
	0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, // mov rax, the kernel's function
	0xff, 0xd0, // call rax
	0x48, 0x83, 0xc4, 0x08, // add rsp, 8
	0x5e,       // pop rsi
	0x5f,       // pop rdi
	0x85, 0xff, // test edi, edi: is it CLOCK_REALTIME?
	0x75, 0x0a, // jne over the next two
	0x48, 0x8b, 0x0d, 0x15, 0, 0, 0, // mov rcx, [rip + 21]: the shift
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3, // ret
}

const (
	clockKernel = 8  // where in clockCode the kernel's function is
	clockShift  = 56 // where behind its beginning the seconds are
	clockBytes  = 64 // of all that
)

// region is a part of a process's memory.
type region struct {
	from, to uint64
	writable bool
	what     string
}

// setClock sets the clock of a process to be so far off the computer's.
func setClock(pid int, off time.Duration) error {
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	regions, err := regions(pid)
	if err != nil {
		return err
	}
	for _, r := range regions {
		if r.what != "[vdso]" {
			continue
		}
		place := r.to - clockBytes
		there := make([]byte, clockBytes)
		if _, err := mem.ReadAt(there, int64(place)); err != nil {
			return err
		}
		if _, err := mem.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(off/time.Second)), int64(place+clockShift)); err != nil {
			return err
		}
		if bytes.HasPrefix(there, clockCode[:clockKernel]) {
			return nil
		}
		if !bytes.Equal(there, make([]byte, clockBytes)) {
			return errors.New("no place in the vDSO")
		}
		return replaceClock(mem, r, place, regions)
	}
	return errors.New("no vDSO")
}

// regions are the parts of a process's memory.
func regions(pid int) (out []region, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var r region
		var mode string
		fields := strings.Fields(lines.Text())
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &r.from, &r.to, &mode); err != nil {
			return nil, err
		}
		if len(fields) > 5 {
			r.what = fields[5]
		}
		r.writable = mode[1] == 'w'
		out = append(out, r)
	}
	return out, lines.Err()
}

// replaceClock puts the function at a place of the vDSO, and its address where the
// program has that of the kernel's: in its data, which follow each other from its first
// writable region on.
func replaceClock(mem *os.File, vdso region, place uint64, regions []region) error {
	image := make([]byte, vdso.to-vdso.from)
	if _, err := mem.ReadAt(image, int64(vdso.from)); err != nil {
		return err
	}
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return err
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return err
	}
	kernel := uint64(0)
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			kernel = vdso.from + s.Value
		}
	}
	if kernel == 0 {
		return errors.New("the vDSO has no clock")
	}
	code := append([]byte(nil), clockCode...)
	binary.LittleEndian.PutUint64(code[clockKernel:], kernel)
	if _, err := mem.WriteAt(code, int64(place)); err != nil {
		return err
	}
	found, end := 0, uint64(0)
	for _, r := range regions {
		if !r.writable || end != 0 && r.from != end {
			continue
		}
		end = r.to
		data := make([]byte, r.to-r.from)
		if _, err := mem.ReadAt(data, int64(r.from)); err != nil {
			return err
		}
		for i := 0; i+8 <= len(data); i += 8 {
			if binary.LittleEndian.Uint64(data[i:]) == kernel {
				if _, err := mem.WriteAt(binary.LittleEndian.AppendUint64(nil, place), int64(r.from)+int64(i)); err != nil {
					return err
				}
				found++
			}
		}
	}
	if found != 1 {
		return fmt.Errorf("%d places know the clock", found)
	}
	return nil
}
