package book

import (
	"bufio"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// stage is where the commands of a page run.
type stage struct {
	t         *testing.T
	dir       string
	section   string
	started   int               // servers
	ports     map[string]int    // of this machine, by host:port as the page has them
	servers   map[int]*exec.Cmd // by their ports
	shell     *shell            // of all stages
	login     string            // how a user has logged in
	initiated bool              // the last server makes itself a set
	here      []string          // what stands for what in commands
}

func newStage(t *testing.T, shell *shell) *stage {
	dir := t.TempDir()
	s := &stage{t: t, dir: dir, shell: shell, ports: map[string]int{}, servers: map[int]*exec.Cmd{}}
	for _, path := range []string{"/var/lib/", "/var/log/", "/etc/", "/mnt/", "/tmp/", "/backups/"} {
		if err := os.MkdirAll(dir+path, 0o700); err != nil {
			t.Fatal(err)
		}
		s.here = append(s.here, path, dir+path)
	}
	if err := os.Mkdir(dir+"/var/log/mayfly", 0o700); err != nil {
		t.Fatal(err)
	}
	s.certificates()
	return s
}

// certificates makes those that the pages name.
func (s *stage) certificates() {
	a := testkit.NewAuthority(s.t, "Root")
	server := a.Sign("server.pem", pkix.Name{CommonName: "server"}, time.Now().Add(time.Hour))
	for name, from := range map[string]string{"ca.pem": a.CAFile, "server.pem": server.File} {
		if err := os.Link(from, filepath.Join(s.dir, name)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// port is the port of this machine for one of the page.
func (s *stage) port(of string) int {
	if s.ports[of] == 0 {
		s.ports[of] = testkit.FreePort(s.t)
	}
	return s.ports[of]
}

// address is host:port, or a port, as a page has it.
var address = regexp.MustCompile(`localhost:(\d+)|--port (\w+)`)

// text is a command with what this machine has in place of what the page names.
func (s *stage) text(command string) string {
	command = strings.NewReplacer(s.here...).Replace(command)
	command = strings.NewReplacer("mongodb://127.0.0.1/", s.uri(), "mongodb://localhost/", s.uri(), "mongodb://db1,db2,db3/?replicaSet=rs0", s.uri(), "mongodb://db1.example.com/", s.uri()).Replace(command)
	return address.ReplaceAllStringFunc(command, func(found string) string {
		m := address.FindStringSubmatch(found)
		if m[2] != "" {
			return fmt.Sprintf("--port %d", s.port(m[2]))
		}
		return fmt.Sprintf("localhost:%d", s.port(m[1]))
	})
}

// uri is that of the server that a page takes for granted.
func (s *stage) uri() string {
	return fmt.Sprintf("mongodb://127.0.0.1:%d/?directConnection=true", s.port("27017"))
}

// exec runs a command to its end.
func (s *stage) exec(command string) {
	s.t.Helper()
	if strings.Contains(command, "mongodb://") {
		s.ensureServer()
	}
	cmd := exec.Command("sh", "-c", strings.Replace(s.text(command), "mayfly ", testkit.Binary(s.t)+" ", 1))
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	if err != nil && !(strings.HasPrefix(command, "mayfly doctor ") && cmd.ProcessState.ExitCode() == 1) { // it has found something
		s.t.Errorf("%s: %v\n%s", command, err, out)
	}
}

// ensureServer starts a server with the defaults if the page has not started one.
func (s *stage) ensureServer() {
	if s.servers[s.port("27017")] == nil {
		s.serve("mayfly serve")
	}
}

// serve starts a server, which takes the place of the one that has its port.
func (s *stage) serve(command string) {
	s.t.Helper()
	command, comment, _ := strings.Cut(command, "#")
	if strings.Contains(comment, "each of three machines") {
		for i, host := range []string{"a:27017", "b:27017", "c:27017"} {
			port := []string{"27017", "b", "c"}[i] // the first one is that of clients
			s.serve(strings.Replace(command, "/var/lib/mayfly", "/var/lib/"+port, 1) + " --port " + port)
			s.here = append(s.here, strconv.Quote(host), fmt.Sprintf(`"127.0.0.1:%d"`, s.port(port)))
		}
		return
	}
	args := strings.Fields(s.text(strings.TrimSuffix(strings.TrimSpace(command), "&")))[1:]
	port := s.port("27017")
	if i := slices.Index(args, "--port"); i >= 0 {
		var err error
		if port, err = strconv.Atoi(args[i+1]); err != nil {
			s.t.Fatal(err)
		}
	} else {
		args = append(args, "--port", strconv.Itoa(port))
	}
	if args[0] == "serve" && !slices.Contains(args, "--dbpath") {
		args = append(args, "--dbpath", filepath.Join(s.dir, fmt.Sprintf("data%d", s.started)))
	}
	s.started++
	if slices.Contains(args, "--console") {
		args = append(args, "--consolePort", strconv.Itoa(testkit.FreePort(s.t)))
	}
	s.stop(s.servers[port])
	cmd := exec.Command(testkit.Binary(s.t), append(args, "--nounixsocket")...)
	cmd.Dir = s.dir
	out, err := os.Create(filepath.Join(s.dir, fmt.Sprintf("out%d", port)))
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	_ = out.Close() // the process has it
	s.servers[port] = cmd
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(end) {
			b, _ := os.ReadFile(out.Name())
			s.t.Fatalf("%v: %v\n%s", args, err, b)
		}
	}
	if port == s.port("27017") && s.shell.at == s {
		s.shell.at, s.login = nil, ""
	}
	s.initiated = slices.Contains(args, "--initiate")
}

// stop stops a server, if it runs.
func (s *stage) stop(cmd *exec.Cmd) {
	if cmd == nil || cmd.ProcessState != nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
}

// evaluate has mongosh evaluate something. fails is what has to be in the error, "" where none may come.
func (s *stage) evaluate(text, fails string) {
	s.t.Helper()
	if s.shell.at != s {
		s.shell.at = s
		lines := []string{fmt.Sprintf("db = connect(%q)", s.uri())}
		if s.initiated {
			lines = append(lines, "while (!db.hello().isWritablePrimary) sleep(20)")
		}
		if s.login != "" {
			lines = append(lines, "use admin", s.login, "use test")
		}
		for _, line := range lines {
			s.inShell(line, "")
		}
	}
	if strings.HasPrefix(text, "db.auth(") {
		s.login = text
	}
	s.inShell(s.text(text), fails)
}

func (s *stage) inShell(line, fails string) {
	s.t.Helper()
	out, err := s.shell.evaluate(line)
	if err != nil {
		s.t.Fatalf("mongosh ended at %s: %v\n%s", line, err, out)
	}
	if failed.MatchString(out) != (fails != "") || !strings.Contains(out, fails) {
		s.t.Errorf("%s\nthe error that has to come is %q, and what comes:\n%s", line, fails, out)
	}
}

// failed is how mongosh shows an error.
var failed = regexp.MustCompile(`Uncaught|\bok: 0\b`)

// shell is a mongosh that reads what it is to evaluate.
type shell struct {
	at    *stage // to whose server it is connected; nil for none
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	lines int
}

func newShell(t *testing.T) *shell {
	mongosh, err := filepath.Abs("../node/node_modules/.bin/mongosh")
	if err != nil {
		t.Fatal(err)
	}
	s := &shell{cmd: exec.Command(mongosh, "--nodb", "--quiet")}
	s.cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stderr = s.cmd.Stdout
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("mongosh is not there: run e2e/install (%v)", err)
	}
	s.out = bufio.NewReader(out)
	t.Cleanup(func() {
		_ = s.in.Close()
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	})
	return s
}

// evaluateTime is how long a line may take. Only mongosh's end is an end of what it waits for.
const evaluateTime = time.Minute

// evaluate evaluates one line, and returns what is printed.
func (s *shell) evaluate(line string) (string, error) {
	s.lines++
	late := time.AfterFunc(evaluateTime, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	if _, err := fmt.Fprintf(s.in, "%s\nprint(\"evaluated \" + %d)\n", line, s.lines); err != nil {
		return "", err
	}
	var out strings.Builder
	for {
		text, err := s.out.ReadString('\n')
		if err != nil || strings.Contains(text, fmt.Sprintf("evaluated %d\n", s.lines)) {
			return out.String(), err
		}
		out.WriteString(text)
	}
}
