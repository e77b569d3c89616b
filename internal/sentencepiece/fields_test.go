package sentencepiece

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lowpack/lowpack/pack"
)

// TestFields: every kind of field is walked, and no message that ends early is.
func TestFields(t *testing.T) {
	data := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 300)
	data = protowire.AppendFixed32(protowire.AppendTag(data, 2, protowire.Fixed32Type), 7)
	data = protowire.AppendFixed64(protowire.AppendTag(data, 3, protowire.Fixed64Type), 8)
	data = protowire.AppendString(protowire.AppendTag(data, 4, protowire.BytesType), "text")
	var got string
	each := func(number protowire.Number, varint uint64, bytes []byte) error {
		got += fmt.Sprintf("%d %d %q; ", number, varint, bytes)
		return nil
	}
	if err := Fields(data, each); err != nil || got != `1 300 ""; 2 7 ""; 3 0 ""; 4 0 "text"; ` {
		t.Errorf("%s, %v", got, err)
	}
	whole := map[int]bool{0: true, 3: true, 8: true, 17: true} // between two fields
	for n := range len(data) {
		if err := Fields(data[:n], each); whole[n] != (err == nil) || err != nil && !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	stop := errors.New("stop")
	if err := Fields(data, func(protowire.Number, uint64, []byte) error { return stop }); err != stop {
		t.Error(err)
	}
}
