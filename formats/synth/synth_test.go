package synth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
)

// plan returns a checkpoint of a bundled configuration, with options changed by edit.
func plan(t *testing.T, like string, edit func(*Options)) *Checkpoint {
	t.Helper()
	o, err := Find(like)
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatalf("%s: %v", like, err)
	}
	return c
}

func mini(o *Options) { o.Mini = true }

// digest covers names and bytes of all files.
func (c *Checkpoint) digest() string {
	h := sha256.New()
	for _, t := range c.texts {
		io.WriteString(h, t.name)
		h.Write(t.data())
	}
	for _, s := range c.shards {
		io.WriteString(h, s.name)
		h.Write(s.header)
		for _, t := range s.tensors {
			h.Write(t.all())
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// all returns all bytes of a tensor.
func (t *tensor) all() []byte {
	p := make([]byte, t.Size())
	t.filler().fill(p, 0)
	return p
}

func (c *Checkpoint) tensor(name string) *tensor {
	for i := range c.shards {
		for j := range c.shards[i].tensors {
			if t := &c.shards[i].tensors[j]; t.Name == name {
				return t
			}
		}
	}
	return nil
}

// TestSameBytesForEver: a change of this digest means that results measured on synthetic checkpoints before and after
// are for different weights.
func TestSameBytesForEver(t *testing.T) {
	for like, want := range map[string]string{
		"bitnet-2b4t":          "e0bfbacd38168455dd6acb6a336320cea0fdb08fabb33e93c48f6bbbdf420f2f",
		"bitnet-2b4t-bf16":     "372d722d807e315b87aca2330d3bf706cc2f1ca80ee1c36e50b989ebfa661fa1",
		"trilm-99m":            "5d1ed4c9fc48b1bccbd1f0e07399f74931dedd0ca263c69290ac9dc7565d2f06",
		"paretoq-125m-2bit":    "e35360e5801a210e482ab08bbf4008ae32c72b249c503d4d03e0080b8c3a8a70",
		"paretoq-125m-3bit":    "aec691977efb5941add40a4b1eb556dad858498e0d1719d631a0521165ffc482",
		"llama-3.2-1b":         "a082c205512ea7a8d2889bdeff8672c16a578e2ae9623730dca7368253001f46",
		"falcon3-1b":           "e5fec59e6e35632e6d8b77adb3b49b01267d6b53fbe8329012f082e244a38618",
		"paretoq-125m-1.58bit": "4295ae094ca88259c25142adc941246ddd53e13cb5b2afae904d5da8d9c78dac",
	} {
		got := plan(t, like, mini).digest()
		if got != want {
			t.Errorf("%q: %q,", like, got)
		}
		if again := plan(t, like, mini).digest(); again != got {
			t.Errorf("%s differs between two runs", like)
		}
		if other := plan(t, like, func(o *Options) { o.Mini, o.Seed = true, 1 }).digest(); other == got {
			t.Errorf("%s does not depend on the seed", like)
		}
	}
}

// TestPublishedSizes compares with the known sizes of the published files.
func TestPublishedSizes(t *testing.T) {
	for _, want := range []struct {
		like                string
		parameters, ternary int64
		tensors             int // number of quantized tensors
		bytes               int64
	}{
		{"bitnet-2b4t-bf16", 2_412_820_480, 2_084_044_800, 210, 4_825_679_400},
		// the size of its model.safetensors to the byte
		{"bitnet-2b4t", 2_412_820_480, 2_084_044_800, 210, 0},
		{"llama3-8b", 8_030_261_248, 6_979_321_856, 224, 0},
		{"falcon3-1b", 0, 1_132_462_080, 126, 0},
		{"falcon3-3b", 0, 2_422_210_560, 154, 0},
		{"falcon3-7b", 0, 6_650_068_992, 196, 0},
		{"falcon3-10b", 0, 9_500_098_560, 280, 0},
		{"bitnet-3b", 0, 26 * (4*3200*3200 + 3*3200*8640), 182, 0},
	} {
		c := plan(t, want.like, nil)
		if got := c.Parameters(); want.parameters != 0 && got != want.parameters {
			t.Errorf("%s has %d parameters, want %d", want.like, got, want.parameters)
		}
		if got := c.Bytes(); want.bytes != 0 && got != want.bytes {
			t.Errorf("%s has %d bytes, want %d", want.like, got, want.bytes)
		}
		weights, n := int64(0), 0
		for _, need := range c.Description.Tensors() {
			if need.Linear && need.Name != c.Description.Head {
				weights, n = weights+int64(need.Shape[0])*int64(need.Shape[1]), n+1
			}
		}
		if weights != want.ternary || n != want.tensors {
			t.Errorf("%s has %d ternary weights in %d tensors, want %d in %d", want.like, weights, n, want.ternary,
				want.tensors)
		}
	}
}

// TestPublishedData compares with the number of tensors and their bytes in model.safetensors.index.json of
// openai/gpt-oss-20b and Qwen/Qwen3-8B (total_size). Bonsai 8B has the shape of the latter, in float16.
func TestPublishedData(t *testing.T) {
	for _, want := range []struct {
		like              string
		tensors           int
		bytes, parameters int64
	}{
		{"gpt-oss-20b", 459, 13_761_264_768, 20_914_757_184},
		{"bonsai-8b", 399, 16_381_470_720, 8_190_735_360},
		{"qwen3-8b-gptq", 0, 0, 8_190_735_360},
	} {
		c, bytes := plan(t, want.like, nil), int64(0)
		for _, x := range c.tensors {
			n := x.DType.Size()
			for _, d := range x.Shape {
				n *= d
			}
			bytes += n
		}
		if c.Parameters() != want.parameters || want.bytes > 0 && (bytes != want.bytes || c.Tensors() != want.tensors) {
			t.Errorf("%s: %d parameters in %d tensors of %d bytes; want %d, %d, %d", want.like, c.Parameters(),
				c.Tensors(),
				bytes, want.parameters, want.tensors, want.bytes)
		}
	}
}

// TestEveryFamilyIsBundled: every family that the program reads can also be synthesized, at full size and in miniature.
func TestEveryFamilyIsBundled(t *testing.T) {
	made := map[string]bool{}
	for _, l := range Likes() {
		// a file of weights holds 65,536 tensors, and Qwen3-Next has more
		full, small := plan(t, l.Name, func(o *Options) { o.ShardSize = 5 << 30 }), plan(t, l.Name, mini)
		if full.Description.Family != small.Description.Family || full.Weights != small.Weights {
			t.Errorf("%s: the miniature is %s %s, the model %s %s", l.Name, small.Description.Family, small.Weights,
				full.Description.Family, full.Weights)
		}
		if small.Bytes() > 4<<20 {
			t.Errorf("%s: the miniature has %d bytes", l.Name, small.Bytes())
		}
		made[full.Description.Family] = true
	}
	for _, f := range model.Families() {
		if !made[f.Name] && !f.Text {
			t.Errorf("no bundled configuration of family %s", f.Name)
		}
	}
}

func TestRefused(t *testing.T) {
	o, err := Find("bitnet-2b4t")
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*Options){
		"normal weights under a config that declares packed ones": func(o *Options) { o.Weights = Normal },
		"unknown weights":          func(o *Options) { o.Weights = "fp4" },
		"zeros":                    func(o *Options) { o.Zeros = 1 },
		"more shards than tensors": func(o *Options) { o.Shards = 543 },
		"negative shards":          func(o *Options) { o.Shards = -1 },
		"stop token":               func(o *Options) { o.Stop = []int{128256} },
		"no JSON":                  func(o *Options) { o.Config = []byte("{") },
		"not an object":            func(o *Options) { o.Config = []byte("[]") },
		"null":                     func(o *Options) { o.Config = []byte("null") },
		"other family":             func(o *Options) { o.Config = []byte(`{"architectures":["OPTForCausalLM"]}`) },
		"other dtype":              func(o *Options) { o.Config = []byte(tiny(`"torch_dtype": "int8"`)) },
		"no heads": func(o *Options) {
			o.Config, o.Mini = []byte(tiny(`"num_attention_heads": 0`)), true
		},
		"huge": func(o *Options) {
			o.Config, o.Mini = []byte(tiny(`"num_hidden_layers": 1, "intermediate_size": -9223372036854775808`)), true
		},
	} {
		bad := o
		edit(&bad)
		if c, err := New(bad); err == nil {
			t.Errorf("%s: accepted: %+v", name, c.Description.Config)
		} else if !errors.Is(err, pack.ErrUnsupported) && !errors.Is(err, pack.ErrCorrupt) &&
			!errors.Is(err, pack.ErrLimit) {
			t.Errorf("%s: %v has no class", name, err)
		}
	}
	if _, err := Find("gpt-5"); err == nil {
		t.Error("an unknown name is accepted")
	}
}

// TestOddTokens: a pad token of −1, and vocabularies too small for all bytes, are handled.
func TestOddTokens(t *testing.T) {
	for _, vocab := range []string{"300", "255", "258", "4"} {
		c, err := New(Options{Config: []byte(tiny(`"vocab_size": ` + vocab +
			`, "eos_token_id": [3, 2], "pad_token_id": -1`))})
		if err != nil {
			t.Fatal(err)
		}
		c.digest()
		if has := len(c.texts) == 4; has != (vocab == "300" || vocab == "258") {
			t.Errorf("vocabulary of %s: files %v", vocab, c.Files())
		}
	}
}

// tiny is a Llama configuration with one more key.
func tiny(extra string) string {
	s := `{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"max_position_embeddings":128,
	"rms_norm_eps":1e-6,"hidden_act":"silu"`
	for key, value := range map[string]string{"num_attention_heads": "4", "num_hidden_layers": "2",
		"intermediate_size": "100", "vocab_size": "300"} {
		if !strings.Contains(extra, `"`+key+`"`) {
			s += `,"` + key + `":` + value
		}
	}
	if extra != "" {
		s += "," + extra
	}
	return s + "}"
}

// write writes a checkpoint to a new directory.
func write(t *testing.T, c *Checkpoint) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := c.Write(context.Background(), dir, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// names lists the files in a directory.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestWriteIsAllOrNothing(t *testing.T) {
	c := plan(t, "bitnet-2b4t", mini)
	ctx, cancel := context.WithCancel(context.Background())
	dir := filepath.Join(t.TempDir(), "model")
	stop := func(done, total int64, at string) {
		if done > total/2 {
			cancel()
		}
	}
	if err := c.Write(ctx, dir, stop); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if left := names(t, filepath.Dir(dir)); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}

	if err := c.Write(context.Background(), dir, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(context.Background(), dir, nil); err == nil {
		t.Error("an existing directory is written over")
	}
	if err := c.Write(context.Background(), filepath.Join(dir, "no", "such"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that does not exist: %v", err)
	}
}
