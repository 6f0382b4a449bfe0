package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// TestChart holds that the archive of the chart is what lies in the tree, that the manifests given
// out are what it renders, and that all of them are objects of Kubernetes' API without a field that
// it does not know, whose pods meet the policy "restricted".
func TestChart(t *testing.T) {
	f, err := os.Open(only(t, "mayfly-*.chart.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := loader.LoadArchive(f)
	if err != nil {
		t.Fatal(err)
	}
	if name := fmt.Sprintf("mayfly-%s.chart.tgz", c.Metadata.Version); filepath.Base(f.Name()) != name || c.AppVersion() != c.Metadata.Version {
		t.Errorf("%s is of the chart %s, of version %s", f.Name(), name, c.AppVersion())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "mayfly/templates"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range unpack(t, unzipped, dir) {
		want, err := os.ReadFile(filepath.Join("chart", strings.TrimPrefix(name, "mayfly/")))
		got, _ := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what lies in the tree: %v", name, err)
		}
	}
	for kind, values := range map[string]map[string]any{"set": {}, "cluster": {"cluster": map[string]any{"enabled": true}}} {
		manifests, err := os.ReadFile(only(t, "mayfly-*."+kind+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := render(c, values)
		if err != nil || text != string(manifests) {
			t.Errorf("the manifests of a %s are not what the chart renders: %v", kind, err)
		}
		values["keySecret"], values["storage"], values["args"] = "key", map[string]any{"class": "fast"}, []any{"--quiet"}
		if text, err = render(c, values); err != nil || !strings.Contains(text, "storageClassName: fast") || !strings.Contains(text, `- "--quiet"`) {
			t.Errorf("%s: %v", text, err)
		}
		for _, text := range []string{string(manifests), text} {
			checkObjects(t, objectsOf(t, text))
		}
	}
}

// TestChartUpgrades holds what an upgrade relies on: jobs that go away so that others can be applied, a
// member that is waited for, a shard that is added by the one member that is always there, and options that
// each command knows.
func TestChartUpgrades(t *testing.T) {
	c, err := loader.LoadDir("chart")
	if err != nil {
		t.Fatal(err)
	}
	text, err := render(c, map[string]any{"members": 5, "cluster": map[string]any{"enabled": true}, "args": []any{"--quiet"}, "routerArgs": []any{"--slowms=7"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objectsOf(t, text) {
		p := templateOf(o)
		if p == nil {
			continue
		}
		c := p.Spec.Containers[0]
		switch o := o.(type) {
		case *batchv1.Job:
			if o.Spec.TTLSecondsAfterFinished == nil {
				t.Errorf("the job %s stays", o.Name)
			}
			if add := c.Args[len(c.Args)-1]; strings.Contains(add, "addShard") && strings.Count(add, ":27017") != 1 {
				t.Errorf("a shard is added by members that may be none yet: %s", add)
			}
			continue
		case *appsv1.StatefulSet:
			if o.Spec.MinReadySeconds == 0 {
				t.Errorf("%s: the next member is stopped at once", o.Name)
			}
		}
		if c.ReadinessProbe.HTTPGet.Path != "/readyz" {
			t.Errorf("%v: ready by %s", p.Labels, c.ReadinessProbe.HTTPGet.Path)
		}
		want := map[string]string{"serve": "--quiet", "router": "--slowms=7"}[c.Args[0]]
		for _, arg := range []string{"--quiet", "--slowms=7"} {
			if slices.Contains(c.Args, arg) != (arg == want) {
				t.Errorf("%v: %q", p.Labels, c.Args)
			}
		}
	}
}

// TestChartKeepsSets: values that would delete a set with its documents are refused.
func TestChartKeepsSets(t *testing.T) {
	c, err := loader.LoadDir("chart")
	if err != nil {
		t.Fatal(err)
	}
	cluster := func(shards int) map[string]any {
		return map[string]any{"cluster": map[string]any{"enabled": true, "shards": shards}}
	}
	for _, x := range []struct {
		there   string
		values  map[string]any
		refused bool
	}{
		{"mayfly", nil, false}, {"mayfly", cluster(2), true},
		{"mayfly-config", cluster(2), false}, {"mayfly-config", nil, true},
		{"mayfly-shard1", cluster(2), false}, {"mayfly-shard1", cluster(1), true},
	} {
		all, err := chartutil.ToRenderValues(c, x.values, chartutil.ReleaseOptions{Name: "mayfly", Namespace: "test", IsUpgrade: true}, chartutil.DefaultCapabilities)
		if err != nil {
			t.Fatal(err)
		}
		_, err = engine.RenderWithClientProvider(c, all, there{name: x.there})
		if refused := err != nil && strings.Contains(err.Error(), "would delete the replica set "+x.there); refused != x.refused || err != nil && !refused {
			t.Errorf("%s is there, and the values are %v: %v", x.there, x.values, err)
		}
	}
}

// there is a cluster of machines that has one object, in the namespace test.
type there struct {
	dynamic.NamespaceableResourceInterface
	name string
}

func (c there) GetClientFor(string, string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return c, true, nil
}

func (c there) Namespace(string) dynamic.ResourceInterface { return c }

func (c there) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	if name != c.name {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "statefulsets"}, name)
	}
	return &unstructured.Unstructured{Object: map[string]any{"kind": "StatefulSet"}}, nil
}

// objectsOf reads the objects of manifests strictly.
func objectsOf(t *testing.T, text string) (all []kuberuntime.Object) {
	t.Helper()
	scheme := kuberuntime.NewScheme()
	for _, add := range []func(*kuberuntime.Scheme) error{appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for part := range strings.SplitSeq(text, "\n---\n") {
		o, _, err := decoder.Decode([]byte(part), nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, part)
		}
		all = append(all, o)
	}
	return all
}

// templateOf returns the pods that an object makes, nil if it makes none.
func templateOf(o kuberuntime.Object) *corev1.PodTemplateSpec {
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	}
	return nil
}

// checkObjects checks what strict types do not say: selectors find pods, ports and volumes are there.
func checkObjects(t *testing.T, all []kuberuntime.Object) {
	t.Helper()
	restricted, err := policy.NewEvaluator(policy.DefaultChecks())
	if err != nil {
		t.Fatal(err)
	}
	selected := func(what string, selector *metav1.LabelSelector) (pods []*corev1.PodTemplateSpec) {
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			if p := templateOf(o); p != nil && s.Matches(labels.Set(p.Labels)) {
				pods = append(pods, p)
			}
		}
		if len(pods) != 1 {
			t.Errorf("%s selects %d kinds of pods, want one", what, len(pods))
		}
		return pods
	}
	for _, o := range all {
		switch o := o.(type) {
		case *corev1.Service:
			for _, p := range selected(o.Name, &metav1.LabelSelector{MatchLabels: o.Spec.Selector}) {
				for _, port := range o.Spec.Ports {
					if !slices.ContainsFunc(p.Spec.Containers[0].Ports, func(c corev1.ContainerPort) bool {
						return c.Name == port.TargetPort.StrVal && c.ContainerPort == port.Port
					}) {
						t.Errorf("%s: no container has the port %s", o.Name, port.Name)
					}
				}
			}
		case *policyv1.PodDisruptionBudget:
			selected(o.Name, o.Spec.Selector)
		case *appsv1.StatefulSet:
			selected(o.Name, o.Spec.Selector)
		case *appsv1.Deployment:
			selected(o.Name, o.Spec.Selector)
		}
		p := templateOf(o)
		if p == nil {
			continue
		}
		for _, r := range restricted.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &p.ObjectMeta, &p.Spec) {
			if !r.Allowed {
				t.Errorf("%v: %s: %s", p.Labels, r.ForbiddenReason, r.ForbiddenDetail)
			}
		}
		for _, m := range p.Spec.Containers[0].VolumeMounts {
			claimed := false
			if s, ok := o.(*appsv1.StatefulSet); ok {
				claimed = slices.ContainsFunc(s.Spec.VolumeClaimTemplates, func(c corev1.PersistentVolumeClaim) bool { return c.Name == m.Name })
			}
			if !claimed && !slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
				t.Errorf("%v: no volume %s", p.Labels, m.Name)
			}
		}
	}
}

// TestKubernetes starts what the chart renders, as processes of this machine and as the image's
// user: with the containers' arguments and environment, addresses and directories of this machine in
// place of theirs, and their jobs run twice, those for more members the second time. A set has a primary
// and a cluster its shards then, behind a key.
func TestKubernetes(t *testing.T) {
	c, err := loader.LoadDir("chart")
	if err != nil {
		t.Fatal(err)
	}
	for kind, values := range map[string]map[string]any{
		"set":     {"keySecret": "key"},
		"cluster": {"keySecret": "key", "members": 1, "cluster": map[string]any{"enabled": true}},
	} {
		t.Run(kind, func(t *testing.T) {
			text, err := render(c, values)
			if err != nil {
				t.Fatal(err)
			}
			n := newNode(t, objectsOf(t, text))
			n.start()
			n.runJobs()
			values["members"] = 5
			if text, err = render(c, values); err != nil {
				t.Fatal(err)
			}
			n.objects = objectsOf(t, text)
			n.runJobs()
			if kind == "set" {
				n.until("mayfly-2.mayfly.test.svc:27017", `{"replSetGetStatus": 1}`, `"PRIMARY"`, `"SECONDARY".*"SECONDARY"`)
			} else {
				n.until("mayfly-router.test.svc:27017", `{"listShards": 1}`, `mayfly-shard0/`, `mayfly-shard1/`)
				n.until("mayfly-router.test.svc:27017", `{"insert": "c", "documents": [{}]}`, `"n":1`)
			}
		})
	}
}

// node runs the containers of pods as processes.
type node struct {
	t       *testing.T
	objects []kuberuntime.Object
	dir     string            // of the binary, the key and the volumes
	address map[string]string // on this machine, by that in the cluster
	probes  []string          // URLs
}

// newNode gives an address of this machine to each pod, by the names that services give it.
func newNode(t *testing.T, objects []kuberuntime.Object) *node {
	n := &node{t: t, objects: objects, dir: t.TempDir(), address: map[string]string{}}
	binary, err := os.ReadFile(only(t, "mayfly-*-linux-"+runtime.GOARCH))
	if err != nil {
		t.Fatal(err)
	}
	for path, b := range map[string][]byte{"mayfly": binary, "key": []byte("c2VjcmV0c2VjcmV0\n")} {
		if err := os.WriteFile(filepath.Join(n.dir, path), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mode := os.FileMode(0o400)
	if os.Getuid() == 0 { // as fsGroup has it
		mode = 0o440
		if err := os.Chown(filepath.Join(n.dir, "key"), 0, imageUser); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{filepath.Join(n.dir, "key"): mode, n.dir: 0o777, filepath.Dir(n.dir): 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *appsv1.StatefulSet:
			for i := range int(*o.Spec.Replicas) {
				n.address[fmt.Sprintf("%s-%d.%s.test.svc:27017", o.Name, i, n.headless(o.Spec.ServiceName))] = fmt.Sprintf("127.0.0.1:%d", freePort(t))
			}
		case *appsv1.Deployment: // a service of the same name has one address for all its pods
			n.address[o.Name+".test.svc:27017"] = fmt.Sprintf("127.0.0.1:%d", freePort(t))
		}
	}
	return n
}

// headless is the name of a service that gives each pod a name, also before it is ready.
func (n *node) headless(name string) string {
	for _, o := range n.objects {
		if s, ok := o.(*corev1.Service); ok && s.Name == name && s.Spec.ClusterIP == corev1.ClusterIPNone && s.Spec.PublishNotReadyAddresses {
			return name
		}
	}
	n.t.Fatalf("there is no headless service %s", name)
	return ""
}

// start starts a process for each pod, and waits until all are ready.
func (n *node) start() {
	for _, o := range n.objects {
		switch o := o.(type) {
		case *appsv1.StatefulSet:
			for i := range int(*o.Spec.Replicas) {
				pod := fmt.Sprintf("%s-%d", o.Name, i)
				n.serve(pod, n.address[fmt.Sprintf("%s.%s.test.svc:27017", pod, o.Spec.ServiceName)], o.Spec.Template.Spec.Containers[0])
			}
		case *appsv1.Deployment:
			n.serve(o.Name, n.address[o.Name+".test.svc:27017"], o.Spec.Template.Spec.Containers[0])
		}
	}
	for _, url := range n.probes {
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			reply, err := http.Get(url)
			if err == nil {
				_ = reply.Body.Close()
				if reply.StatusCode == http.StatusOK {
					break
				}
			}
			if time.Now().After(end) {
				n.t.Fatalf("%s: %v %v", url, reply, err)
			}
		}
	}
}

// serve starts the server of a pod.
func (n *node) serve(pod, address string, c corev1.Container) {
	cmd := n.command(pod, c)
	_, port, _ := strings.Cut(address, ":")
	cmd.Args = append(cmd.Args, "--port="+port)
	admin := freePort(n.t)
	probe := c.StartupProbe.HTTPGet
	i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == probe.Port.StrVal })
	for was, is := range map[string]string{"--bind_ip_all": "--bind_ip=127.0.0.1", "--adminBindIp=0.0.0.0": "--adminBindIp=127.0.0.1", fmt.Sprintf("--adminPort=%d", c.Ports[i].ContainerPort): fmt.Sprintf("--adminPort=%d", admin)} {
		cmd.Args[slices.Index(cmd.Args, was)] = is
	}
	for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe} { // before there is a set
		n.probes = append(n.probes, fmt.Sprintf("http://127.0.0.1:%d%s", admin, p.HTTPGet.Path))
	}
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if n.t.Failed() {
			n.t.Logf("%s:\n%s", pod, out)
		}
	})
}

// variable is how Kubernetes has a variable in an argument.
var variable = regexp.MustCompile(`\$\((\w+)\)`)

// command is the process of a container.
func (n *node) command(pod string, c corev1.Container) *exec.Cmd {
	env := map[string]string{}
	for _, v := range c.Env {
		env[v.Name] = map[string]string{"metadata.name": pod, "metadata.namespace": "test"}[v.ValueFrom.FieldRef.FieldPath]
	}
	var here []string
	for was, is := range n.address {
		here = append(here, was, is)
	}
	for _, m := range c.VolumeMounts {
		volume := filepath.Join(n.dir, pod, m.Name)
		if m.Name == "key" {
			volume = n.dir
		} else if err := os.MkdirAll(volume, 0o777); err != nil {
			n.t.Fatal(err)
		} else if os.Getuid() == 0 {
			if err := os.Chown(volume, imageUser, imageUser); err != nil {
				n.t.Fatal(err)
			}
		}
		here = append(here, "="+m.MountPath+"/", "="+volume+"/")
	}
	cmd := exec.CommandContext(context.WithoutCancel(n.t.Context()), filepath.Join(n.dir, "mayfly"))
	for _, arg := range c.Args {
		arg = variable.ReplaceAllStringFunc(arg, func(v string) string {
			value := env[variable.FindStringSubmatch(v)[1]]
			if value == "" {
				n.t.Fatalf("%s has no variable %s", pod, v)
			}
			return value
		})
		cmd.Args = append(cmd.Args, strings.NewReplacer(here...).Replace(arg))
	}
	cmd.Dir, cmd.Env = "/", []string{"PATH=/"}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
	}
	return cmd
}

// runJobs runs the jobs in the order of their weights, which is that of their names in it.
func (n *node) runJobs() {
	for _, weight := range []string{"0", "1"} {
		for _, o := range n.objects {
			if job, ok := o.(*batchv1.Job); ok && job.Annotations["helm.sh/hook-weight"] == weight {
				if out, err := n.command(job.Name, job.Spec.Template.Spec.Containers[0]).CombinedOutput(); err != nil {
					n.t.Fatalf("%s: %v\n%s", job.Name, err, out)
				}
			}
		}
	}
}

// until runs a command on a server until the reply has all that is wanted. Without the key a server
// says nothing of itself.
func (n *node) until(address, command string, want ...string) {
	uri := "mongodb://" + n.address[address] + "/?directConnection=true"
	binary := filepath.Join(n.dir, "mayfly")
	if out, err := exec.Command(binary, "run", "--uri", uri, `{"serverStatus": 1}`).CombinedOutput(); err == nil || !strings.Contains(string(out), "(13)") {
		n.t.Errorf("without a key: %v\n%s", err, out)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		cmd := exec.Command(binary, "run", "--uri", uri, "--keyFile", filepath.Join(n.dir, "key"), command)
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
		}
		out, err := cmd.CombinedOutput()
		if err == nil && !slices.ContainsFunc(want, func(w string) bool { return !regexp.MustCompile(w).Match(out) }) {
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("%s on %s: %v\n%s", command, address, err, out)
		}
	}
}
