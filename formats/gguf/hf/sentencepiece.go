package hf

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lowpack/lowpack/internal/sentencepiece"
	"github.com/lowpack/lowpack/pack"
)

// Field numbers and values of sentencepiece_model.proto.
const (
	modelPiece, modelTrainer, modelNormalizer = 1, 2, 3
	pieceText, pieceScore, pieceType          = 1, 2, 3
	trainerKind, trainerByteFallback          = 3, 35
	normalizerPrefix, normalizerSpaces        = 3, 4 // add_dummy_prefix, remove_extra_whitespaces
	kindBPE                                   = 2
)

// sentencePiece builds tokenizer.model: the pieces with scores and types.
func (v *vocabulary) sentencePiece(k *keys) ([]byte, error) {
	list, _ := k.get("tokenizer.ggml.scores")
	scores, ok := list.Floats()
	if !ok || len(scores) != len(v.tokens) {
		return nil, fmt.Errorf("%w: key %q must be a list of %d numbers", pack.ErrCorrupt, "tokenizer.ggml.scores",
			len(v.tokens))
	}
	var b []byte
	for id, token := range v.tokens {
		if scores[id] != scores[id] {
			return nil, fmt.Errorf("%w: the score of token %d is not a number", pack.ErrCorrupt, id)
		}
		var piece []byte
		piece = protowire.AppendTag(piece, pieceText, protowire.BytesType)
		piece = protowire.AppendString(piece, token)
		piece = protowire.AppendTag(piece, pieceScore, protowire.Fixed32Type)
		piece = protowire.AppendFixed32(piece, math.Float32bits(float32(scores[id])))
		piece = appendVarint(piece, pieceType, uint64(v.types[id]))
		b = appendMessage(b, modelPiece, piece)
	}
	bytes := slices.Contains(v.types, int64(ByteToken))
	b = appendMessage(b, modelTrainer,
		appendVarint(appendVarint(nil, trainerKind, kindBPE), trainerByteFallback, bit(bytes)))
	prefix := bit(k.flag("tokenizer.ggml.add_space_prefix", true))
	return appendMessage(b, modelNormalizer,
		appendVarint(appendVarint(nil, normalizerPrefix, prefix), normalizerSpaces, 0)), nil
}

func appendMessage(b []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), message)
}

func appendVarint(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// Pieces reads tokens, scores and types of a tokenizer.model that the tokenizer has already accepted.
func Pieces(data []byte) (tokens []string, scores []float32, types []int32, err error) {
	err = sentencepiece.Fields(data, func(number protowire.Number, _ uint64, piece []byte) error {
		if number != modelPiece {
			return nil
		}
		tokens, scores, types = append(tokens, ""), append(scores, 0), append(types, NormalToken)
		last := len(tokens) - 1
		return sentencepiece.Fields(piece, func(number protowire.Number, v uint64, text []byte) error {
			switch number {
			case pieceText:
				tokens[last] = string(text)
			case pieceScore:
				scores[last] = math.Float32frombits(uint32(v))
			case pieceType:
				types[last] = int32(v)
			}
			return nil
		})
	})
	return tokens, scores, types, err
}
