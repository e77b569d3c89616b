// Package filekind names what lies where the weights or the texts of a model were expected: a file of another format,
// the remains of a download, the root of the download cache. Its errors say what to do.
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

// HeadSize is how many of a file's first bytes are looked at.
const HeadSize = 512

// kind is one kind of file. What is wrong with it follows the class in messages.
type kind struct {
	class error
	is    func(head []byte) bool
	what  func(head []byte) string
}

const pickles = ", which run code when they are loaded and are never read here: take a safetensors revision of the " +
	"model, or save it with save_pretrained(safe_serialization=True)"

// kinds are told apart by bytes that no text of a model and no safetensors file begins with.
var kinds = []kind{
	{pack.ErrCorrupt, isEmpty, says("the file is empty: download it again")},
	{pack.ErrCorrupt, matches(`(?i)^(\xef\xbb\xbf)?\s*<(!doctype\s+html|html)[\s>]`),
		says("an HTML page, which a server sent instead of the file: download it again, signed in if the model is gated")},
	{pack.ErrCorrupt, matches(`^version https://git-lfs\.github\.com/spec/`), pointer},
	{pack.ErrUnsupported, matches(`^GGUF`),
		says("a GGUF model: name the file itself, which must end in .gguf, for lowpack convert")},
	{pack.ErrUnsupported, isTorchZip, says("a PyTorch archive of Python pickles" + pickles)},
	{pack.ErrUnsupported, matches(`^PK(\x03\x04|\x05\x06)`),
		says("a zip archive, which is not read: extract the model. If torch.save wrote it, it holds pickles: save the " +
			"model with save_pretrained(safe_serialization=True)")},
	{pack.ErrUnsupported, matches(`^\x80[\x02-\x05][^\x00]`), says("one of Python's pickles" + pickles)},
	{pack.ErrUnsupported, matches(`^\x1f\x8b\x08`), says("gzip data, which are not read: extract the model")},
	{pack.ErrUnsupported, isONNX,
		says("an ONNX model, which is not read: take the safetensors model that it was made from")},
}

// notWeights are further kinds that a person may name in the place of weights.
var notWeights = []kind{
	{pack.ErrUnsupported, matches(`^(\x7fELF|MZ|\xcf\xfa\xed\xfe|\xca\xfe\xba\xbe)`),
		says("a program, not weights" + nameModel)},
	{pack.ErrUnsupported, matches(`^%PDF-`), says("a PDF document, not weights" + nameModel)},
	{pack.ErrUnsupported, matches(`^(\x89PNG|\xff\xd8\xff|GIF8|RIFF....WEBP)`),
		says("a picture, not weights" + nameModel)},
	{pack.ErrUnsupported, matches(`^\x93NUMPY`), says("a NumPy array, which is not read: save it as safetensors")},
	{pack.ErrUnsupported, matches(`^\x89HDF\r\n`),
		says("an HDF5 file of Keras, which is not read: take the safetensors model that it was made from")},
	{pack.ErrUnsupported, matches(`^(BZh|\xfd7zXZ\x00|\x28\xb5\x2f\xfd|7z\xbc\xaf)`),
		says("compressed data, which are not read: extract the model")},
	{pack.ErrUnsupported, isTar, says("a tar archive, which is not read: extract the model")},
	{pack.ErrUnsupported, isJSON, says("JSON text, not weights" + nameModel)},
	{pack.ErrUnsupported, isText, says("a text, not weights" + nameModel)},
}

const nameModel = ": name the directory of the model, or its .safetensors file"

func isTar(head []byte) bool { return len(head) > 262 && string(head[257:262]) == "ustar" }

// isText: the beginning of a text in UTF-8 has no control characters but white space. The file may go on in the
// middle of a character.
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

// Weights returns an error if a file that begins so, and was taken for safetensors, is of a known other kind.
func Weights(head []byte) error {
	if err := Text(head); err != nil || isSafetensors(head) {
		return err
	}
	return among(notWeights, head)
}

// Text is Weights for a file that was taken for JSON or another text.
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

// Explain returns why texts could not be read: the kind of the first one that is of another kind, or err.
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

// matches looks at bytes, not at UTF-8: each becomes the character of its number.
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

// isSafetensors: a header of less than 4 GiB begins with an object. A header of 559,903 bytes begins as gzip data do.
func isSafetensors(head []byte) bool {
	return len(head) > 8 && binary.LittleEndian.Uint64(head) < 1<<32 && head[8] == '{'
}

var pointerSize = regexp.MustCompile(`\nsize (\d{1,19})\n`)

// pointer says how large the file is that a Git LFS pointer stands for.
func pointer(head []byte) string {
	size := "a file"
	if m := pointerSize.FindSubmatch(head); m != nil {
		size = fmt.Sprintf("a file of %s bytes", m[1])
	}
	return "a Git LFS pointer, which stands for " + size + ": git lfs pull downloads it"
}

// isTorchZip: torch.save writes data.pkl, in a folder, as the first entry of an archive. Its name stands at byte 30
// of the entry, its length at byte 26.
func isTorchZip(head []byte) bool {
	if len(head) < 30 || !bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		return false
	}
	name := head[30:]
	name = name[:min(len(name), int(binary.LittleEndian.Uint16(head[26:])))]
	return bytes.HasSuffix(name, []byte("/data.pkl"))
}

// isONNX: a protobuf message with field 1 (ir_version, 3 to 31), field 2 (producer_name, a printable text), and then
// one of the next fields of a ModelProto: producer_version, domain, model_version, doc_string, graph.
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
