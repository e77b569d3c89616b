package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

func packCommand() *cli.Command {
	return &cli.Command{
		Name:  "pack",
		Usage: "pack one matrix of codes in any layout, for people who write kernels",
		UsageText: "lowpack pack --layout NAME --in CODES.safetensors -o OUT.safetensors\n  lowpack pack --reverse " +
			"--layout NAME --shape MxK --in PACKED.safetensors -o OUT.safetensors",
		Description: `The input holds one I8 tensor [M, K] of codes, the output one U8 tensor of the same name: the packed bytes
and nothing else. --reverse goes the other way; as packed bytes do not tell their shape, it needs --shape.
Exchange formats, which keep scales inside, get and must have a scale of 1 in every block.

  lowpack pack --layout vnni4i --in codes.safetensors -o packed.safetensors
  lowpack pack --layout tl2 --param BM=128 --param BK=96 --in codes.safetensors -o packed.safetensors
  lowpack pack --reverse --layout i2s --shape 2560x6912 --in packed.safetensors -o codes.safetensors`,
		Flags: []cli.Flag{
			oneOf(&cli.StringFlag{Name: "layout", Aliases: []string{"l"},
				Usage: "layout or exchange format: a `NAME` that lowpack layouts lists"}, allLayoutNames()...),
			oneOf(&cli.StringFlag{Name: "alphabet", Usage: "values of the codes: `NAME` of an alphabet of the layout",
				DefaultText: "its first"}, alphabetNames()...),
			paramFlag(),
			input{&cli.StringFlag{Name: "in", Aliases: []string{"i"}, Usage: "read `FILE`", TakesFile: true}},
			outputFlag("write `FILE`"),
			&cli.BoolFlag{Name: "reverse", Usage: "unpack bytes to codes"},
			&cli.StringFlag{Name: "shape", Usage: "with --reverse: rows and columns, `MxK`"},
		},
		Action: packMatrix,
	}
}

func allLayoutNames() (names []string) {
	for _, l := range pack.Layouts() {
		names = append(names, l.Name)
	}
	return names
}

func alphabetNames() (names []string) {
	for _, a := range pack.Alphabets() {
		names = append(names, a.Name)
	}
	return names
}

func packMatrix(c *cli.Context) error {
	if err := wantArgs(c, 0, ""); err != nil {
		return err
	}
	for _, flag := range []string{"layout", "in", "output"} {
		if c.String(flag) == "" {
			return usagef("pack needs --%s; see `lowpack pack --help`", flag)
		}
	}
	if c.IsSet("shape") != c.Bool("reverse") {
		return usagef("--shape and --reverse cannot be used without each other")
	}
	p, err := openPacker(c)
	if err != nil {
		return usagef("%v", err)
	}
	if c.Bool("reverse") {
		return unpackFile(c, p)
	}
	return packFile(c, p)
}

// packer is the common interface of layouts and exchange formats.
type packer struct {
	spec   pack.Spec
	size   func(pack.Shape) (int, error)
	pack   func(dst []byte, m *pack.Matrix) error
	unpack func(m *pack.Matrix, src []byte) error
}

func openPacker(c *cli.Context) (*packer, error) {
	params, err := paramsOf(c)
	if err != nil {
		return nil, err
	}
	spec := pack.Spec{Name: c.String("layout"), Alphabet: c.String("alphabet"), Params: params}
	info, err := pack.FindLayout(spec.Name)
	if err != nil {
		return nil, err
	}
	if info.Block != 0 {
		return openUnscaled(spec)
	}
	l, err := pack.Open(spec)
	if err != nil {
		return nil, err
	}
	return &packer{l.Spec(), l.PackedSize, l.Pack, l.Unpack}, nil
}

// openUnscaled opens an exchange format for codes alone: every scale is 1.
func openUnscaled(spec pack.Spec) (*packer, error) {
	b, err := pack.OpenBlocks(spec.Name)
	if err != nil {
		return nil, err
	}
	if own := b.Spec(); len(spec.Params) > 0 || spec.Alphabet != "" && spec.Alphabet != own.Alphabet {
		return nil, fmt.Errorf("%s holds %s codes and has no parameters", own.Name, own.Alphabet)
	}
	scalesOf := func(m *pack.Matrix) []float32 { return make([]float32, len(m.Codes)/b.BlockSize()) }
	return &packer{
		spec: b.Spec(),
		size: b.PackedSize,
		pack: func(dst []byte, m *pack.Matrix) error {
			scales := scalesOf(m)
			for i := range scales {
				scales[i] = 1
			}
			return b.PackBlocks(dst, m, scales)
		},
		unpack: func(m *pack.Matrix, src []byte) error {
			scales := scalesOf(m)
			if err := b.UnpackBlocks(m, scales, src); err != nil {
				return err
			}
			for i, s := range scales {
				if s != 1 {
					return fmt.Errorf("%w: block %d has the scale %v: codes alone do not say what it holds",
						pack.ErrUnsupported, i, s)
				}
			}
			return nil
		},
	}, nil
}

func packFile(c *cli.Context, p *packer) error {
	t, data, err := readOnly(c.String("in"), safetensors.I8)
	if err != nil {
		return err
	}
	if len(t.Shape) != 2 {
		return fmt.Errorf("%s: %w: tensor %q has the shape %v; want [M, K]", c.String("in"), pack.ErrUnsupported,
			t.Name, t.Shape)
	}
	m, err := p.matrix(int(t.Shape[0]), int(t.Shape[1]))
	if err != nil {
		return fmt.Errorf("%s: tensor %q: %w", c.String("in"), t.Name, err)
	}
	m.Codes = make([]int8, len(data))
	for i, b := range data {
		m.Codes[i] = int8(b)
	}
	n, err := p.size(m.Shape)
	if err != nil {
		return fmt.Errorf("%s: tensor %q: %w", c.String("in"), t.Name, err)
	}
	packed := make([]byte, n)
	if err := p.pack(packed, m); err != nil {
		return fmt.Errorf("%s: tensor %q: %w%s", c.String("in"), t.Name, err, p.hint(err))
	}
	return writeOnly(c.String("output"),
		safetensors.TensorInfo{Name: t.Name, DType: safetensors.U8, Shape: []int64{int64(n)}}, packed)
}

// hint lists possible alphabets if codes do not fit the chosen one.
func (p *packer) hint(err error) string {
	info, found := pack.FindLayout(p.spec.Name)
	if found != nil || len(info.Alphabets) < 2 || !errors.Is(err, pack.ErrCorrupt) {
		return ""
	}
	return "; --alphabet chooses another: " + strings.Join(info.AlphabetNames(), ", ")
}

func unpackFile(c *cli.Context, p *packer) error {
	rows, columns, ok := strings.Cut(c.String("shape"), "x")
	m, err1 := strconv.Atoi(rows)
	k, err2 := strconv.Atoi(columns)
	if !ok || err1 != nil || err2 != nil {
		return usagef("--shape %s: want MxK, such as 2560x6912", c.String("shape"))
	}
	matrix, err := p.matrix(m, k)
	if err != nil {
		return usagef("--shape %s: %v", c.String("shape"), err)
	}
	t, data, err := readOnly(c.String("in"), safetensors.U8)
	if err != nil {
		return err
	}
	n, err := p.size(matrix.Shape)
	if err != nil {
		return usagef("--shape %s: %v", c.String("shape"), err)
	}
	if n != len(data) {
		return fmt.Errorf("%s: %w: tensor %q has %d bytes; a matrix %v in layout %s has %d", c.String("in"),
			pack.ErrCorrupt,
			t.Name, len(data), matrix.Shape, p.spec.Name, n)
	}
	matrix.Codes = make([]int8, m*k)
	if err := p.unpack(matrix, data); err != nil {
		return fmt.Errorf("%s: tensor %q: %w", c.String("in"), t.Name, err)
	}
	codes := make([]byte, len(matrix.Codes))
	for i, v := range matrix.Codes {
		codes[i] = byte(v)
	}
	return writeOnly(c.String("output"),
		safetensors.TensorInfo{Name: t.Name, DType: safetensors.I8, Shape: []int64{int64(m), int64(k)}}, codes)
}

// matrix returns a matrix in the alphabet of the packer, without codes.
func (p *packer) matrix(m, k int) (*pack.Matrix, error) {
	s := pack.Shape{M: m, K: k}
	if err := s.Check(); err != nil {
		return nil, err
	}
	a, err := pack.FindAlphabet(p.spec.Alphabet)
	if err != nil {
		return nil, err
	}
	return &pack.Matrix{Shape: s, Alphabet: a}, nil
}

// readOnly reads the only tensor of a file, which must have the given type.
func readOnly(path string, want safetensors.DType) (*safetensors.TensorInfo, []byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	h, err := safetensors.Parse(f, info.Size())
	if err != nil {
		return nil, nil, filerr.Named(path, err)
	}
	if len(h.Tensors) != 1 || h.Tensors[0].DType != want {
		return nil, nil, fmt.Errorf("%s: %w: want exactly one tensor of type %s, there are %s", path,
			pack.ErrUnsupported,
			want, tensorList(h))
	}
	t := &h.Tensors[0]
	data := make([]byte, t.Size())
	if _, err := f.ReadAt(data, h.DataStart+t.Begin); err != nil {
		return nil, nil, fmt.Errorf("%s: tensor %q: %w", path, t.Name, err)
	}
	return t, data, nil
}

// tensorList names a few tensors and their types.
func tensorList(h *safetensors.Header) string {
	var names []string
	for i, t := range h.Tensors {
		if i == 3 {
			return fmt.Sprintf("%s … (%d tensors)", strings.Join(names, ", "), len(h.Tensors))
		}
		names = append(names, fmt.Sprintf("%s %q", t.DType, t.Name))
	}
	return orNone([]string{strings.Join(names, ", ")})
}

func writeOnly(path string, t safetensors.TensorInfo, data []byte) error {
	return writeFile(path, func(w io.Writer) error {
		ts := []safetensors.TensorInfo{t}
		if err := safetensors.Place(ts); err != nil {
			return err
		}
		out, err := safetensors.NewWriter(w, nil, ts, 8)
		if err != nil {
			return err
		}
		if err := out.Write(t.Name, data); err != nil {
			return err
		}
		return out.Close()
	})
}
