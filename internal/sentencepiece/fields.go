// Package sentencepiece reads the protobuf messages of SentencePiece models (sentencepiece_model.proto).
package sentencepiece

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lowpack/lowpack/pack"
)

// Fields walks the fields of a message: varint is the value of a number, bytes the content of a string or message.
// Errors wrap pack.ErrCorrupt, or come from each.
func Fields(data []byte, each func(number protowire.Number, varint uint64, bytes []byte) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return fmt.Errorf("%w: not a SentencePiece model: %v", pack.ErrCorrupt, protowire.ParseError(n))
		}
		data = data[n:]
		var varint uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			varint, n = protowire.ConsumeVarint(data)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(data)
			varint = uint64(v)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(data)
		default:
			n = protowire.ConsumeFieldValue(number, kind, data)
		}
		if n < 0 {
			return fmt.Errorf("%w: not a SentencePiece model: %v", pack.ErrCorrupt, protowire.ParseError(n))
		}
		data = data[n:]
		if err := each(number, varint, bytes); err != nil {
			return err
		}
	}
	return nil
}
