// Package filekind identifies files found in place of a model's weights or text files: other formats, remains of a
// download, the root of the download cache. Its errors name the remedy.
package filekind

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/lowpack/lowpack/pack"
)

// HeadSize is the number of leading bytes that are examined.
const HeadSize = 512

// kind is a file format. The error is the class followed by what.
type kind struct {
	class error
	is    func(head []byte) bool
	what  func(head []byte) string
}

const pickles = ", which run code when loaded and are not supported: use a safetensors revision of the " +
	"model, or save it with save_pretrained(safe_serialization=True)"

// kinds are recognized by leading bytes that neither a model's text files nor safetensors files start with.
var kinds = []kind{
	{pack.ErrCorrupt, isEmpty, says("the file is empty: download it again")},
	{pack.ErrCorrupt, matches(`(?i)^(\xef\xbb\xbf)?\s*<(!doctype\s+html|html)[\s>]`),
		says("an HTML page, which a server sent instead of the file: download it again, signed in if it is gated")},
	{pack.ErrCorrupt, matches(`^version https://git-lfs\.github\.com/spec/`), pointer},
	{pack.ErrUnsupported, matches(`^GGUF`),
		says("a GGUF model: name the file itself, which must end in .gguf, for lowpack convert")},
	{pack.ErrUnsupported, isTorchZip, says("a PyTorch archive of Python pickles" + pickles)},
	{pack.ErrUnsupported, matches(`^PK(\x03\x04|\x05\x06)`),
		says("a zip archive, which is not supported: extract the model. If torch.save wrote it, it holds pickles: " +
			"save the model with save_pretrained(safe_serialization=True)")},
	{pack.ErrUnsupported, matches(`^\x80[\x02-\x05][^\x00]`), says("one of Python's pickles" + pickles)},
	{pack.ErrUnsupported, matches(`^\x1f\x8b\x08`), says("gzip data, which is not supported: extract the model")},
	{pack.ErrUnsupported, isONNX,
		says("an ONNX model, which is not supported: use the safetensors model it was made from")},
}

// notWeights are further kinds that may be given in place of weights.
var notWeights = []kind{
	{pack.ErrUnsupported, matches(`^(\x7fELF|MZ|\xcf\xfa\xed\xfe|\xca\xfe\xba\xbe)`),
		says("a program, not weights" + nameModel)},
	{pack.ErrUnsupported, matches(`^%PDF-`), says("a PDF document, not weights" + nameModel)},
	{pack.ErrUnsupported, matches(`^(\x89PNG|\xff\xd8\xff|GIF8|RIFF....WEBP)`),
		says("a picture, not weights" + nameModel)},
	{pack.ErrUnsupported, matches(`^\x93NUMPY`), says("a NumPy array, which is not supported: save it as safetensors")},
	{pack.ErrUnsupported, matches(`^\x89HDF\r\n`),
		says("an HDF5 file of Keras, which is not supported: use the safetensors model it was made from")},
	{pack.ErrUnsupported, matches(`^(BZh|\xfd7zXZ\x00|\x28\xb5\x2f\xfd|7z\xbc\xaf)`),
		says("compressed data, which is not supported: extract the model")},
	{pack.ErrUnsupported, isTar, says("a tar archive, which is not supported: extract the model")},
	{pack.ErrUnsupported, isJSON, says("JSON text, not weights" + nameModel)},
	{pack.ErrUnsupported, isText, says("a text, not weights" + nameModel)},
}

const nameModel = ": name the directory of the model, or its .safetensors file"

func isTar(head []byte) bool { return len(head) > 262 && string(head[257:262]) == "ustar" }

// isText: the start of a UTF-8 text has no control characters except white space. The head may end inside a character.
func isText(head []byte) bool {
	head = bytes.TrimPrefix(head[:min(len(head), HeadSize)], []byte("\xef\xbb\xbf"))
	for i := 0; i < len(head); {
		r, n := utf8.DecodeRune(head[i:])
		cut := r == utf8.RuneError && n == 1 && !utf8.FullRune(head[i:])
		if !cut && (r == utf8.RuneError && n == 1 || r < ' ' && !strings.ContainsRune("\t\r\n\f\x1b", r) || r == 0x7f) {
			return false
		}
		i += n
	}
	return true
}

var isJSON = matches(`^(\xef\xbb\xbf)?\s*[\[{]`)

// Weights returns an error if a file with this head, expected to be safetensors, has another known format.
func Weights(head []byte) error {
	if err := Text(head); err != nil || isSafetensors(head) {
		return err
	}
	return among(notWeights, head)
}

// Text is Weights for a file expected to be JSON or another text.
func Text(head []byte) error {
	head = head[:min(len(head), HeadSize)]
	if isSafetensors(head) {
		return nil
	}
	return among(kinds, head)
}

func among(kinds []kind, head []byte) error {
	for _, k := range kinds {
		if k.is(head) {
			return fmt.Errorf("%w: %s", k.class, k.what(head))
		}
	}
	return nil
}

// Explain returns a better reason for a parse error: the kind of the first text that has another format, else err.
func Explain(err error, texts ...[]byte) error {
	if err == nil {
		return nil
	}
	for _, text := range texts {
		if kind := Text(text); kind != nil {
			return kind
		}
	}
	return err
}

func says(what string) func([]byte) string { return func([]byte) string { return what } }

// matches applies a pattern to bytes rather than UTF-8: each byte becomes the character with its value.
func matches(pattern string) func(head []byte) bool {
	re := regexp.MustCompile(pattern)
	return func(head []byte) bool {
		latin1 := make([]rune, len(head))
		for i, b := range head {
			latin1[i] = rune(b)
		}
		return re.MatchString(string(latin1))
	}
}

func isEmpty(head []byte) bool { return len(head) == 0 }

// isSafetensors: a header of less than 4 GiB, starting with an object. It has priority: a header of 559,903 bytes
// starts like gzip data.
func isSafetensors(head []byte) bool {
	return len(head) > 8 && binary.LittleEndian.Uint64(head) < 1<<32 && head[8] == '{'
}

var pointerSize = regexp.MustCompile(`\nsize (\d{1,19})\n`)

// pointer describes a Git LFS pointer with the size of its target.
func pointer(head []byte) string {
	size := "a file"
	if m := pointerSize.FindSubmatch(head); m != nil {
		size = fmt.Sprintf("a file of %s bytes", m[1])
	}
	return "a Git LFS pointer, which stands for " + size + ": git lfs pull downloads it"
}

// isTorchZip: torch.save writes data.pkl, in a folder, as the first entry of a zip archive. The name is at byte 30 of
// the entry, its length at byte 26.
func isTorchZip(head []byte) bool {
	if len(head) < 30 || !bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		return false
	}
	name := head[30:]
	name = name[:min(len(name), int(binary.LittleEndian.Uint16(head[26:])))]
	return bytes.HasSuffix(name, []byte("/data.pkl"))
}

// isONNX: a protobuf message with field 1 (ir_version, 3 to 31), field 2 (producer_name, printable) and one of the next
// fields of ModelProto: producer_version, domain, model_version, doc_string, graph.
func isONNX(head []byte) bool {
	if len(head) < 4 || head[0] != 0x08 || head[1] < 3 || head[1] > 31 || head[2] != 0x12 {
		return false
	}
	end := 4 + int(head[3])
	if head[3] > 127 || end >= len(head) {
		return false
	}
	for _, c := range head[4:end] {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return bytes.IndexByte([]byte{0x1a, 0x22, 0x28, 0x32, 0x3a}, head[end]) >= 0
}
