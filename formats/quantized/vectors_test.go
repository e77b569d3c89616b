package quantized_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// files holds the tensors of a module in memory.
type files map[string]tensor

type tensor struct {
	quantized.Tensor
	data []byte
}

func (f files) add(name string, t safetensors.DType, data []byte, shape ...int) {
	f[name] = tensor{quantized.Tensor{Name: name, DType: t, Shape: shape}, data}
}

func (f files) lookup(name string) (quantized.Tensor, bool) { t, ok := f[name]; return t.Tensor, ok }

func (f files) read(name string, b []byte, off int64) error {
	if _, err := bytes.NewReader(f[name].data).ReadAt(b, off); err != nil {
		return fmt.Errorf("%w: tensor %q: %w", pack.ErrCorrupt, name, err)
	}
	return nil
}

// beside is one file beside config.json.
func beside(name, text string) oneFile { return oneFile{name, text} }

type oneFile struct{ name, text string }

func (f oneFile) File(name string) ([]byte, bool) { return []byte(f.text), name == f.name }
func (oneFile) Metadata(string) []string          { return nil }

// metadata ends the names of entries of __metadata__ among tensors.
const metadata = " in __metadata__"

func (f files) File(string) ([]byte, bool) { return nil, false }

func (f files) Metadata(key string) (list []string) {
	for _, file := range []string{"", " of another file"} {
		if t, ok := f[key+metadata+file]; ok {
			list = append(list, string(t.data))
		}
	}
	return list
}

func (f files) open(config, module string) (*quantized.Matrix, error) {
	s, err := quantized.Parse([]byte(config), f)
	if err != nil {
		return nil, err
	}
	l, err := s.Layer(module, f.lookup)
	if err != nil || l == nil {
		return nil, err
	}
	m, err := l.Open(f.read)
	if err == nil {
		words[m] = f[l.Words].data
		_, err = read(m)
	}
	return m, err
}

func ints(rows [][]int64) []byte {
	var out []byte
	for _, r := range rows {
		for _, v := range r {
			out = binary.LittleEndian.AppendUint32(out, uint32(v))
		}
	}
	return out
}

// floats returns n numbers: first, first + step, and so on.
func floats(n int, first, step float32) (out []byte) {
	for i := range n {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(first+step*float32(i)))
	}
	return out
}

// TestVectors: known codes and zero points in the words of every format, including two ways of packing three bits.
func TestVectors(t *testing.T) {
	data, err := os.ReadFile(shared.Path(t, "prototypes/interop/pack-vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Bits, N, K, Group int
		Q, Z              [][]int
		GPTQ              map[string]json.RawMessage
		CT                map[string][][]int64 `json:"compressed_tensors"`
		AWQ, MLX          map[string][][]int64
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		groups := v.K / v.Group
		check := func(what, config string, f files) {
			t.Helper()
			m, err := f.open(config, "x")
			if err != nil {
				t.Errorf("%d bits, %s: %v", v.Bits, what, err)
				return
			}
			half := 1 << (v.Bits - 1)
			got, zeros := codes(m), m.Zeros
			for n := range v.N {
				for k, q := range v.Q[n] {
					if c := int(got[n*v.K+k]); c != q-half {
						t.Fatalf("%d bits, %s: code of row %d, column %d is %d, want %d", v.Bits, what, n, k, c, q-half)
					}
				}
				if want := v.Z[n]; !slices.EqualFunc(zeros[n*groups:][:groups], want,
					func(a int8, b int) bool { return int(a) == b-half }) {
					t.Fatalf("%d bits, %s: zero points of row %d are %v, want %v − %d",
						v.Bits, what, n, zeros[n*groups:][:groups], want, half)
				}
			}
		}
		part := func(name string) (rows [][]int64) {
			if err := json.Unmarshal(v.GPTQ[name], &rows); err != nil {
				t.Fatal(err)
			}
			return rows
		}
		for _, version := range []string{"gptq", "gptq_v2"} {
			f := files{}
			f.add("x.qweight", "I32", ints(part("qweight")), v.K*v.Bits/32, v.N)
			zeros := map[string]string{"gptq": "qzeros_v1", "gptq_v2": "qzeros_v2"}[version]
			f.add("x.qzeros", "I32", ints(part(zeros)), groups, v.N*v.Bits/32)
			f.add("x.scales", safetensors.F32, floats(v.N*groups, 1, 1), groups, v.N)
			check(version, fmt.Sprintf(`{"quantization_config":{"quant_method":"gptq","bits":%d,"group_size":%d,
				"sym":false,"checkpoint_format":%q}}`, v.Bits, v.Group, version), f)
		}
		for name, packed := range v.CT {
			if name == "weight_zero_point" {
				continue
			}
			f := files{}
			f.add("x.weight_packed", "I32", ints(packed), v.N, len(packed[0]))
			f.add("x.weight_shape", "I32", ints([][]int64{{int64(v.N), int64(v.K)}}), 2)
			f.add("x.weight_zero_point", "I32", ints(v.CT["weight_zero_point"]), len(v.CT["weight_zero_point"]), groups)
			f.add("x.weight_scale", safetensors.F32, floats(v.N*groups, 1, 1), v.N, groups)
			check(name, fmt.Sprintf(`{"quantization_config":{"quant_method":"compressed-tensors",
				"format":"pack-quantized","config_groups":{"a":{"targets":["Linear"],
				"weights":{"num_bits":%d,"type":"int","symmetric":false,"strategy":"group","group_size":%d}}}}}`,
				v.Bits, v.Group), f)
		}
		if v.AWQ != nil {
			f := files{}
			f.add("x.qweight", "I32", ints(v.AWQ["qweight"]), v.K, v.N/8)
			f.add("x.qzeros", "I32", ints(v.AWQ["qzeros"]), groups, v.N/8)
			f.add("x.scales", safetensors.F32, floats(v.N*groups, 1, 1), groups, v.N)
			check("awq", `{"quantization_config":{"quant_method":"awq","group_size":32,"version":"GEMM"}}`, f)
		}
		if v.MLX != nil && v.Bits > 2 {
			f := files{}
			f.add("x.weight", "U32", ints(v.MLX["weight_u32"]), v.N, v.K*v.Bits/32)
			f.add("x.scales", safetensors.F32, floats(v.N*groups, 1, 0), v.N, groups)
			var biases []byte
			for i := range v.N * groups {
				biases = append(biases, floats(1, -float32(v.Z[i/groups][i%groups]), 0)...)
			}
			f.add("x.biases", safetensors.F32, biases, v.N, groups)
			check("mlx", fmt.Sprintf(`{"quantization":{"group_size":%d,"bits":%d}}`, v.Group, v.Bits), f)
		}
	}
}
