package bench

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/kernel/roofline"
)

// TestMain installs a clock on which everything takes a millisecond.
func TestMain(m *testing.M) {
	setClock(time.Millisecond, 0)
	os.Exit(m.Run())
}

// setClock installs a clock that advances by a step at every reading; the step grows each time.
func setClock(step, growth time.Duration) {
	var at time.Time
	now = func() time.Time {
		at = at.Add(step)
		step += growth
		return at
	}
}

// unsteady installs a clock on which no two intervals are equal.
func unsteady(t *testing.T) {
	setClock(time.Millisecond, time.Millisecond)
	t.Cleanup(func() { setClock(time.Millisecond, 0) })
}

// quick returns a meter for tests: measurements with TestMain's clock are not noise, and a little memory stands for a
// lot.
func quick() Meter { return Meter{MaxSpread: 1e-9, Memory: 1 << 20} }

func TestQuantity(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Quantity
	}{
		{nil, Quantity{}},
		{[]float64{3}, Quantity{3, 0}},
		{[]float64{4, 1, 3, 2, 5}, Quantity{3, 2.0 / 3}},
		{[]float64{2, 4}, Quantity{3, 1.0 / 3}},
		{[]float64{1, 1, 1, 1, 100}, Quantity{1, 0}}, // one disturbed repetition changes nothing
	} {
		if got := quantity(slices.Clone(c.values)); math.Abs(got.Median-c.want.Median) > 1e-12 ||
			math.Abs(got.Spread-c.want.Spread) > 1e-12 {
			t.Errorf("%v: %v instead of %v", c.values, got, c.want)
		}
	}
}

func TestSteady(t *testing.T) {
	m := Meter{MaxSpread: 0.1}
	for _, c := range []struct {
		spreads []float64 // of successive attempts
		want    float64
		calls   int
	}{
		{[]float64{0.05, 9, 9}, 0.05, 1},
		{[]float64{0.5, 0.1, 9}, 0.1, 2},
		{[]float64{0.5, 0.3, 0.4}, 0.3, 3},
	} {
		calls := 0
		got, err := steady(&m, func() (float64, error) { calls++; return c.spreads[calls-1], nil },
			func(s float64) float64 { return s })
		if err != nil || got != c.want || calls != c.calls {
			t.Errorf("%v: %v after %d attempts, %v", c.spreads, got, calls, err)
		}
	}
	failure := errors.New("failure")
	if _, err := steady(&m, func() (int, error) { return 0, failure }, func(int) float64 { return 0 }); err != failure {
		t.Errorf("error %v", err)
	}
}

// TestJudge compares figures with numbers computed by hand.
func TestJudge(t *testing.T) {
	l := newLimits(make([]byte, 4<<20), 1)
	defer l.close()
	mul := &roofline.Multiplier{ISA: kernel.Generic}
	// Reading readBytes takes 100 µs, the multiplier's operations take 50 µs.
	turns := func(work time.Duration) []turn {
		return slices.Repeat([]turn{{work, 100 * time.Microsecond, 50 * time.Microsecond}}, 5)
	}
	m := Meter{MaxSpread: 0.1}
	memory := l.judge(&m, work{kernel.Generic, l.readBytes(), l.multiplyOps(mul), 1, false},
		turns(200*time.Microsecond))
	if memory.Bound != Memory || math.Abs(memory.Fraction.Median-0.5) > 1e-9 || memory.Noise || memory.Turns != 5 {
		t.Errorf("bound by memory: %+v", memory)
	}
	if want := roofline.GBs(l.readBytes(), 200*time.Microsecond); math.Abs(memory.GBs-want) > 1e-9*want ||
		math.Abs(memory.ReadGBs-2*want) > 1e-9*want {
		t.Errorf("%v GB/s of %v; %v of %v expected", memory.GBs, memory.ReadGBs, want, 2*want)
	}
	// A quarter of the work takes 100 µs; at the limit all of it would take 200 µs: half of the speed.
	multiply := l.judge(&m, work{kernel.Generic, l.readBytes(), 4 * l.multiplyOps(mul), 4, false},
		turns(100*time.Microsecond))
	if multiply.Bound != Multiply || math.Abs(multiply.Fraction.Median-0.5) > 1e-9 ||
		math.Abs(multiply.Seconds.Median-400e-6) > 1e-12 {
		t.Errorf("bound by multiplication: %+v", multiply)
	}
	mixed := turns(200 * time.Microsecond)
	for i := range 2 {
		mixed[i].work *= 3
	}
	if f := l.judge(&m, work{kernel.Generic, l.readBytes(), 1, 1, false}, mixed); !f.Noise {
		t.Errorf("not noise: %+v", f)
	}
}

// TestWarm reads every part of the memory once, and goes on where it was.
func TestWarm(t *testing.T) {
	seen := make([]int, 6)
	l := &limits{pool: kernel.NewPool(1), read: &stretch{task: counter(seen), parts: 2, of: 3, at: 1}}
	defer l.close()
	l.warm()
	if want := []int{1, 1, 1, 1, 1, 1}; !slices.Equal(seen, want) || l.read.at != 1 {
		t.Errorf("read %v, at %d; want %v, at 1", seen, l.read.at, want)
	}
}

// counter counts how often each part is done.
type counter []int

func (c counter) Do(from, to int) {
	for i := from; i < to; i++ {
		c[i]++
	}
}

func TestNoiseIsAnError(t *testing.T) {
	m := Meter{MaxSpread: 0.1}
	if err := m.noise(0, 7); err != nil {
		t.Error(err)
	}
	if err := m.noise(2, 7); !errors.Is(err, ErrNoise) || !strings.Contains(err.Error(), "2 of 7") ||
		!strings.Contains(err.Error(), "10 %") {
		t.Errorf("error %v", err)
	}
	for _, bad := range []Meter{{Time: -1, MaxSpread: 1}, {MaxSpread: 0}, {MaxSpread: -1}, {MaxSpread: math.NaN()}} {
		if bad.Check() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	m := Meter{Time: time.Hour, MaxSpread: 1}
	_, err := m.sample(ctx, func() {
		if calls++; calls == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || calls != 3 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func TestLevels(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }
	sys := fstest.MapFS{}
	for i, c := range [][4]string{{"1", "Data", "48K", "0,64"}, {"1", "Instruction", "32K", "0"},
		{"2", "Unified", "1024K", "0"}, {"3", "Unified", "32768K", "0-7,64-71"}} {
		dir := "cpu0/cache/index" + string(rune('0'+i)) + "/"
		for j, name := range []string{"level", "type", "size", "shared_cpu_list"} {
			sys[dir+name] = file(c[j])
		}
	}
	want := []level{{"L1", 48 << 10, 2}, {"L2", 1 << 20, 1}, {"L3", 32 << 20, 16}}
	got := levelsIn(sys)
	if !slices.Equal(got, want) {
		t.Fatalf("%v instead of %v", got, want)
	}
	for _, c := range []struct{ level, threads, share int }{{0, 1, 36 << 10}, {0, 2, 18 << 10}, {1, 8, 768 << 10},
		{2, 4, 6 << 20}, {2, 64, 1536 << 10}} {
		if s := want[c.level].share(c.threads); s != c.share {
			t.Errorf("%s of %d threads: %d bytes each instead of %d", want[c.level].name, c.threads, s, c.share)
		}
	}
	for threads, size := range map[int]int{1: 256 << 20, 16: 256 << 20, 48: 384 << 20, 1024: mostMemory} {
		if n := memorySize(want, threads); n != size {
			t.Errorf("%d threads read %d bytes of memory instead of %d", threads, n, size)
		}
	}
	for _, bad := range []string{"", "a", "3-1", "0-", "0,,1"} {
		if n := countCPUs(bad); n != 0 {
			t.Errorf("%q: %d CPUs", bad, n)
		}
	}
	if levelsIn(fstest.MapFS{}) != nil || len(cacheLevels()) == 0 {
		t.Error("levels where there are none, or none at all")
	}
}

func TestCPUName(t *testing.T) {
	const info = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: other\n"
	if got := cpuNameIn(strings.NewReader(info)); got != "Some CPU @ 2 GHz" {
		t.Errorf("%q", got)
	}
	if got := cpuNameIn(strings.NewReader("processor\t: 0\n")); got != "" {
		t.Errorf("%q", got)
	}
}

func TestMachine(t *testing.T) {
	m, lines := quick(), 0
	m.Progress = func(done, total int, at string) {
		if done != lines || total < lines || at == "" {
			t.Errorf("progress %d of %d: %q", done, total, at)
		}
		lines++
	}
	r, err := Machine(context.Background(), m, []int{1, 2, 1})
	if err != nil {
		t.Fatal(err)
	}
	per := len(cacheLevels()) + 1 + len(kernel.Available())
	if len(r.Rows) != 2*per || lines != 2*per {
		t.Errorf("%d rows, %d reports of progress; %d expected", len(r.Rows), lines, 2*per)
	}
	for _, row := range r.Rows {
		if row.Seconds != (Quantity{Median: 1e-3}) || row.Noise || row.Rate != 1e3*math.Trunc(row.Rate/1e3) ||
			row.Rate <= 0 {
			t.Errorf("not a whole amount in a millisecond: %+v", row)
		}
		if whole := 1e3 * float64(row.Bytes); row.What == Read && row.Where != memoryLevel &&
			math.Mod(row.Rate, whole) != 0 {
			t.Errorf("not a whole number of rounds through the cache: %+v", row)
		}
	}
}
