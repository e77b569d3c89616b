//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/wait"
)

// TestSlurm submits the scripts of docs/examples/slurm to the daemons of slurm-wlm, on this machine alone. A task is
// stopped in the middle of its part, a second worker takes the same part, and the first is requeued. It takes half a
// minute, mostly waiting, and needs LOWPACK_LONG.
func TestSlurm(t *testing.T) {
	long.Only(t)
	t.Parallel()
	j := newJob(t)
	c := startSlurm(t, j)
	// A checkpoint large enough that a task can be stopped in the middle.
	j.run("lowpack synth --like trilm-99m -o big && lowpack convert big --golden kernel -o whole.safetensors && " +
		"lowpack convert big --golden kernel --part 3/4 -o whole-3")
	real := strings.TrimSpace(j.run("command -v lowpack"))
	j.run("mkdir bin")
	j.write("bin/lowpack", fmt.Sprintf(`#!/bin/sh
cd %[1]s || exit
part=out.parts/part-3 journal=out.parts/.part-3.resume.journal
case "$*" in *"--part 3/4"*)
  mkdir first 2>/dev/null && until [ -e stopped ]; do # again, where the part was done before anybody looked
    rm -f $part
    %[2]s "$@" &
    until [ -e $part ] || [ "$(wc -l 2>/dev/null <$journal)" -ge 3 ] 2>/dev/null; do :; done
    kill -STOP $!
    if [ -e $part ] || [ ! -e $journal ]; then kill -CONT $!; else touch stopped; fi
    wait
  done ;;
esac
exec %[2]s "$@"
`, j.dir, real))
	j.run("chmod +x bin/lowpack")
	j.env = append(j.env, "PATH="+filepath.Join(j.dir, "bin")+":"+filepath.Dir(real)+":"+os.Getenv("PATH"))

	ids := strings.Fields(c.run(`"$EXAMPLES/slurm/submit.sh" big out 4 --golden kernel`))
	if len(ids) != 2 {
		t.Fatalf("submit.sh printed %q", ids)
	}
	c.wait("task 3 to be stopped in its part", func() bool { return exists(j, "stopped") })
	half, err := os.Open(filepath.Join(j.dir, "out.parts", ".part-3.resume")) // to see that the same file is continued
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	again := `"$EXAMPLES/slurm/convert.sbatch" "$PWD/big" "$PWD/out.parts" 4 --golden kernel`
	c.run("! sbatch --parsable --wait --array=3 --output=second.log " + again)
	if log := j.read("second.log"); !strings.Contains(log, "another process is writing") {
		t.Errorf("the second worker of a part was not refused: %s", log)
	}
	c.run("scontrol requeue " + ids[0] + "_3")
	c.wait("task 3 to wait again", func() bool {
		return strings.Contains(c.run("squeue -h -r -o '%i %t'"), ids[0]+"_3 PD")
	})
	time.Sleep(3 * time.Second) // slurmd refuses a job for as long as its last end is the present second
	c.wait("all to be merged and verified", func() bool {
		left := c.run("squeue -h -r -o '%i %t'")
		if strings.Contains(left, ids[0]+"_3 PD") { // Slurm waits two minutes otherwise, each time that slurmd refuses
			c.run("scontrol update jobid=" + ids[0] + "_3 starttime=now || true")
		}
		return left == ""
	})
	if !exists(j, "out") {
		t.Fatalf("nothing was merged:\n%s", c.logs())
	}
	if j.read("out") != j.read("whole.safetensors") {
		t.Error("the merged file is not what one conversion writes")
	}
	if whole, err := io.ReadAll(half); err != nil || string(whole) != j.read("whole-3") {
		t.Error("the requeued task did not continue the file that the stopped one left")
	}
	j.made("out.xml")
	if left := j.run("ls -A out.parts | grep -v log || true"); left != "" {
		t.Errorf("left behind: %s", left)
	}

	// A failing task cancels the merge.
	c.run(`"$EXAMPLES/slurm/submit.sh" big other 2 --layout nonsense`)
	c.wait("the merge job to be cancelled", func() bool { return c.run("squeue -h") == "" })
	if exists(j, "other") || !strings.Contains(j.read("other.parts/convert-1.log"), "nonsense") {
		t.Error("tasks of wrong usage did not fail as they should")
	}
}

// TestSlurmBatch submits an array of files of requests. A task is killed when it has some answers, and is repeated.
func TestSlurmBatch(t *testing.T) {
	long.Only(t)
	t.Parallel()
	j := newBatchJob(t, 200)
	c := startSlurm(t, j)
	j.run("split -n l/4 --additional-suffix=.jsonl requests.jsonl requests/part. && mkdir bin answers")
	real := strings.TrimSpace(j.run("command -v lowpack"))
	j.write("bin/lowpack", fmt.Sprintf(`#!/bin/sh
cd %[1]s || exit
answers=answers/part.ab.jsonl journal=answers/.part.ab.jsonl.resume
case "$*" in *part.ab.jsonl*)
  until [ -e killed ]; do # again, where all was answered before anybody looked
    rm -f answers/part.ab.*
    %[2]s "$@" &
    until [ -e $answers ] || [ "$(wc -l 2>/dev/null <$journal)" -ge 3 ] 2>/dev/null; do :; done
    kill -KILL $! && wait $!
    [ -e $answers ] || { touch killed && exit 1; }
  done ;;
esac
exec %[2]s "$@"
`, j.dir, real))
	j.run("chmod +x bin/lowpack")
	j.env = append(j.env, "PATH="+filepath.Join(j.dir, "bin")+":"+os.Getenv("PATH"))
	batch := ` --wait "$EXAMPLES/slurm/batch.sbatch" "$PWD/model.safetensors" "$PWD/requests" "$PWD/answers" --any-model`
	c.run("! sbatch --parsable --array=1-4" + batch)
	if exists(j, "answers/part.ab.jsonl") || !exists(j, "answers/part.ad.jsonl") {
		t.Fatalf("not one task was killed:\n%s", c.run("ls answers"))
	}
	c.run("sbatch --parsable --array=2" + batch)
	j.sameAnswers()
}

func exists(j *job, name string) bool {
	_, err := os.Stat(filepath.Join(j.dir, name))
	return err == nil
}

// cluster is a single node with its own daemons.
type cluster struct {
	*job
	state string
}

func startSlurm(t *testing.T, j *job) *cluster {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("the daemons of Slurm need root")
	}
	j.env = append(j.env, "PATH="+os.Getenv("PATH")+":/usr/sbin")
	for _, tool := range []string{"munged", "slurmctld", "slurmd"} {
		if _, err := exec.LookPath("/usr/sbin/" + tool); err != nil {
			t.Skipf("%s is not installed (Debian: slurm-wlm, munge)", tool)
		}
	}
	examples, err := filepath.Abs("../../docs/examples")
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	c := &cluster{j, t.TempDir()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.logs())
		}
	})
	if err := os.WriteFile(filepath.Join(c.state, "key"), []byte(strings.Repeat("no secret, one node ", 16)),
		0o600); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(c.state, "slurm.conf")
	// The timeouts are long, because a busy machine answers late, and Slurm would take the node out of service.
	text := fmt.Sprintf(`ClusterName=test
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[3]d
SlurmdPort=%[4]d
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=%[2]s/munge
CredType=cred/munge
StateSaveLocation=%[2]s
SlurmdSpoolDir=%[2]s/spool
SlurmctldPidFile=%[2]s/slurmctld.pid
SlurmdPidFile=%[2]s/slurmd.pid
SlurmctldLogFile=%[2]s/slurmctld.log
SlurmdLogFile=%[2]s/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1
MailProg=/bin/true
KillWait=5
MessageTimeout=100
TCPTimeout=60
BatchStartTimeout=300
UnkillableStepTimeout=300
NodeName=%[1]s NodeAddr=127.0.0.1 CPUs=16 RealMemory=65536
PartitionName=all Nodes=%[1]s Default=YES State=UP
`, host, c.state, freePort(t), freePort(t))
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	j.env = append(j.env, "SLURM_CONF="+conf, "EXAMPLES="+examples)
	c.daemon("munged", "--foreground", "--force", "--key-file="+c.state+"/key", "--socket="+c.state+"/munge",
		"--pid-file="+c.state+"/munged.pid",
		"--log-file="+c.state+"/munged.log", "--seed-file="+c.state+"/seed")
	c.wait("munged", func() bool { _, err := os.Stat(c.state + "/munge"); return err == nil })
	c.daemon("slurmctld", "-D")
	c.daemon("slurmd", "-D")
	c.wait("an idle node", func() bool { return strings.TrimSpace(c.run("sinfo -h -o %T || true")) == "idle" })
	return c
}

// daemon starts a daemon that ends with the test.
func (c *cluster) daemon(name string, args ...string) {
	c.t.Helper()
	cmd := exec.Command("/usr/sbin/"+name, args...)
	cmd.Env = c.env
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // one that has ended is not a failure
		_ = cmd.Wait()
	})
}

func (c *cluster) wait(what string, done func() bool) {
	c.t.Helper()
	wait.For(c.t, what, done)
}

// logs returns the output of the daemons and the jobs.
func (c *cluster) logs() string {
	return c.run("squeue -l; sinfo; tail -n 30 " + c.state + "/*.log *.parts/*.log second.log || true")
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
