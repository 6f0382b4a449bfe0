package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/config"
)

// ListenError is an address that cannot be listened on.
type ListenError struct {
	Address string
	Err     error
}

func (e *ListenError) Error() string {
	// The system's error repeats the address; the cause is wrapped in it.
	err := e.Err
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	var call *os.SyscallError
	if errors.As(err, &call) {
		err = call.Err
	}
	return fmt.Sprintf("cannot listen on %s: %v", e.Address, err)
}

func (e *ListenError) Unwrap() error { return e.Err }

// listen binds every address that the options name, and the unix socket. With port 0
// all addresses use the port that the first one gets.
func listen(ctx context.Context, o config.Net, log *slog.Logger) (listeners []net.Listener, port int, err error) {
	defer func() {
		if err != nil {
			closeAll(listeners)
			listeners = nil
		}
	}()
	port = o.Port
	hosts, sockets := split(o)
	for _, host := range hosts {
		ips, err := resolve(ctx, host, o.IPv6)
		if err != nil {
			return listeners, 0, &ListenError{host, err}
		}
		for _, ip := range ips {
			l, err := listenTCP(ctx, ip, port)
			if err != nil {
				return listeners, 0, err
			}
			listeners = append(listeners, l)
			port = l.Addr().(*net.TCPAddr).Port
		}
	}
	if path := o.SocketPath(strconv.Itoa(port)); path != "" {
		sockets = append(sockets, path)
	}
	for _, path := range sockets {
		l, err := listenUnix(ctx, path, os.FileMode(o.UnixSocketMode), log)
		if err != nil {
			return listeners, 0, &ListenError{path, err}
		}
		listeners = append(listeners, l)
	}
	return listeners, port, nil
}

// Network is how a server reaches others and is reached. The zero value is that of the
// machine; a simulation has its own (docs/rfcs/0032-simulated-cluster.md).
type Network struct {
	// Listener takes the place of all addresses that the options name for clients.
	Listener net.Listener
	// Dial connects to "host:port".
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// listen is listen for what the server listens on.
func (s *Server) listen(ctx context.Context) (listeners []net.Listener, port int, err error) {
	if l := s.Network.Listener; l != nil {
		return []net.Listener{l}, s.Options.Net.Port, nil
	}
	return listen(ctx, s.Options.Net, s.network.With("ctx", "initandlisten"))
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		_ = l.Close()
	}
}

// listenHosts binds one port of all addresses of hosts.
func listenHosts(ctx context.Context, hosts []string, port int) (listeners []net.Listener, err error) {
	for _, host := range hosts {
		ips, err := resolve(ctx, host, false)
		if err != nil {
			closeAll(listeners)
			return nil, &ListenError{host, err}
		}
		for _, ip := range ips {
			l, err := listenTCP(ctx, ip, port)
			if err != nil {
				closeAll(listeners)
				return nil, err
			}
			listeners = append(listeners, l)
		}
	}
	return listeners, nil
}

// split splits the listen addresses into hosts and socket paths.
func split(o config.Net) (hosts, sockets []string) {
	if o.BindIPAll {
		return []string{"*"}, nil
	}
	for _, at := range o.BindIP {
		if strings.HasPrefix(at, "/") {
			sockets = append(sockets, at)
		} else {
			hosts = append(hosts, at)
		}
	}
	return hosts, sockets
}

// resolve returns the addresses of a host; IPv6 only if enabled, or if the host is such
// an address.
func resolve(ctx context.Context, host string, ipv6 bool) ([]net.IP, error) {
	if host == "*" {
		host = "0.0.0.0"
		if ipv6 {
			host = "::"
		}
	}
	if ip := net.ParseIP(host); ip != nil {
		return []net.IP{ip}, nil
	}
	if host == "localhost" { // also where no file of hosts says so
		ips := []net.IP{net.IPv4(127, 0, 0, 1)}
		if ipv6 {
			ips = append(ips, net.IPv6loopback)
		}
		return ips, nil
	}
	found, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return nil, err
	}
	var ips []net.IP
	for _, a := range found {
		known := slices.ContainsFunc(ips, a.IP.Equal)
		if !known && (ipv6 || a.IP.To4() != nil) {
			ips = append(ips, a.IP)
		}
	}
	if len(ips) == 0 {
		return nil, errors.New("it has no IPv4 address, and net.ipv6 is off")
	}
	return ips, nil
}

func listenTCP(ctx context.Context, ip net.IP, port int) (net.Listener, error) {
	network, address := "tcp", net.JoinHostPort(ip.String(), strconv.Itoa(port))
	if ip.To4() != nil {
		network = "tcp4"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, address)
	if err != nil {
		return nil, &ListenError{address, err}
	}
	return l, nil
}

// listenUnix binds a socket's path. It removes the file of a dead server, but not one
// on which a server still answers.
func listenUnix(ctx context.Context, path string, mode os.FileMode, log *slog.Logger) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, errors.New("there is a file that is not a socket")
		}
		if c, err := new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
			_ = c.Close()
			return nil, errors.New("address already in use")
		}
		log.Info("removing socket file", "id", logRemoveSocket, "path", path)
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
