package hosts

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// hosts are network namespaces, each with one interface, and the packets between them.
// The last one is this process's own, where the clients are.
type hosts struct {
	*packets
	hosts []*host
}

// host is one network namespace.
type host struct {
	address netip.Addr
	tun     *os.File
	work    chan func() // done on a thread that is in the namespace
}

const (
	// setPort is where members listen.
	setPort       = 27017
	interfaceName = "set0"
)

// newHosts makes n hosts beside this process, which is in a network namespace of its own.
func newHosts(n int) (*hosts, error) {
	h := &hosts{}
	var ports []io.ReadWriteCloser
	for i := range n + 1 {
		one, err := newHost(netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)}), i < n)
		if err != nil {
			for _, p := range ports {
				_ = p.Close()
			}
			return nil, fmt.Errorf("host %d: %w", i, err)
		}
		h.hosts, ports = append(h.hosts, one), append(ports, one.tun)
	}
	h.packets = carry(ports)
	return h, nil
}

func (h *hosts) Apart() bool    { return true }
func (h *hosts) String() string { return "hosts in network namespaces" }

func (h *hosts) close() {
	h.packets.close()
	for _, one := range h.hosts {
		close(one.work)
	}
}

func (h *hosts) Address(i int) string {
	return netip.AddrPortFrom(h.hosts[i].address, setPort).String()
}

func (h *hosts) Listen(i int) []string {
	return []string{"--port", fmt.Sprint(setPort), "--bind_ip", h.hosts[i].address.String()}
}

// Start implements Network. The process dies with this one.
func (h *hosts) Start(i int, cmd *exec.Cmd) error {
	done := make(chan error)
	h.hosts[i].work <- func() {
		// The signal comes when the thread ends that starts the process: this one does not
		// before the host.
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		done <- cmd.Start()
	}
	return <-done
}

// newHost makes a host, in a new namespace or in that of this process.
func newHost(a netip.Addr, apart bool) (*host, error) {
	h := &host{address: a, work: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		var err error
		if apart {
			err = unix.Unshare(unix.CLONE_NEWNET)
		}
		if err == nil {
			h.tun, err = openInterface(a)
		}
		made <- err
		for f := range h.work {
			f()
		}
	}()
	if err := <-made; err != nil {
		close(h.work)
		return nil, err
	}
	return h, nil
}

// openInterface gives the namespace of the calling thread an interface, whose packets are
// read from and written to the file, and a loopback.
func openInterface(a netip.Addr) (_ *os.File, err error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	r, err := unix.NewIfreq(interfaceName)
	if err == nil {
		r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err == nil {
		err = configure(
			setting{interfaceName, unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(a.AsSlice()) }},
			setting{interfaceName, unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) }},
			setting{interfaceName, unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(maxPacket); return nil }},
			setting{interfaceName, unix.SIOCSIFFLAGS, up})
	}
	if err == nil {
		err = loopback()
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "tun"), nil
}

// loopback gives the namespace of the calling thread a loopback.
func loopback() error { return configure(setting{"lo", unix.SIOCSIFFLAGS, up}) }

// setting is something that an interface is told.
type setting struct {
	name    string
	request uint
	fill    func(*unix.Ifreq) error
}

func configure(settings ...setting) error {
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(sock)
	for _, s := range settings {
		r, err := unix.NewIfreq(s.name)
		if err == nil {
			err = s.fill(r)
		}
		if err == nil {
			err = unix.IoctlIfreq(sock, s.request, r)
		}
		if err != nil {
			return fmt.Errorf("interface %s, request %x: %w", s.name, s.request, err)
		}
	}
	return nil
}

func up(r *unix.Ifreq) error {
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return nil
}
