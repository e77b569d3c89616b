package server

import (
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server/grammar"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

// Limits of a request.
const (
	maxTexts    = 128 // n
	maxStops    = 16
	maxTop      = 20
	maxBiases   = 1024 // also of stop_token_ids and guided_choice
	maxBias     = 100
	biggestInt  = math.MaxInt32
	maxPenalty  = 2
	maxPrompts  = 1024
	maxBody     = 8 << 20     // bytes
	maxBodies   = 8 * maxBody // bytes of all requests together
	maxStopText = 1 << 10     // bytes
)

// settings holds the fields that completions, chat completions and responses share.
type settings struct {
	sampling  engine.Sampling
	origin    api.Origin
	seed      uint64
	maxTokens int // −1 = not given
	minTokens int
	n         int
	stops     []string
	stopIDs   []int // stop_token_ids
	// stop tokens of the model and of the request; masked before minTokens and where the format must go on
	ends      []int
	ignoreEOS bool
	bias      []bias
	frequency float32
	presence  float32
	stream    bool
	usage     bool // stream_options.include_usage

	prediction []int // predicted output; nil = none

	showSpecial bool                // include control tokens in the text
	marked      bool                // mark those of harmony for its reader
	format      *grammar.Grammar    // nil = any text
	formatName  string              // the field that sets it
	words       *grammar.Vocabulary // of the format; nil = the one without control tokens
	constrained []*grammar.Text
}

// readSettings reads the shared fields.
func (m *model) readSettings(b *api.Body) settings {
	s := settings{sampling: m.sampling, maxTokens: -1, n: 1, origin: b.Origin(), seed: b.Origin().Seed()}
	b.Float("temperature", &s.sampling.Temperature, 0, 2)
	b.Float("top_p", &s.sampling.TopP, 0, 1)
	if b.Int("top_k", &s.sampling.TopK, -1, biggestInt); s.sampling.TopK < 0 {
		s.sampling.TopK = 0
	}
	b.Float("min_p", &s.sampling.MinP, 0, 1)
	if b.Float("repetition_penalty", &s.sampling.RepetitionPenalty, 0, 100); b.Raw("repetition_penalty") != nil &&
		s.sampling.RepetitionPenalty == 0 {
		b.Fail("repetition_penalty", "repetition_penalty is 0: must be above 0")
	}
	b.Float("frequency_penalty", &s.frequency, -maxPenalty, maxPenalty)
	b.Float("presence_penalty", &s.presence, -maxPenalty, maxPenalty)
	s.readSeed(b)
	b.Int("n", &s.n, 1, maxTexts)
	b.Int("min_tokens", &s.minTokens, 0, m.context)
	s.readStops(b, m)
	s.readBias(b, m)
	b.Bool("stream", &s.stream)
	s.readStreamOptions(b)
	s.readPrediction(b, m)
	if best := s.n; b.Int("best_of", &best, 1, maxTexts) && best != s.n {
		b.Unsupported("best_of", "best_of is %d and n is %d: best_of must equal n", best, s.n)
	}
	b.Accept("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key",
		"prompt_cache_retention", "cache_prompt", "id_slot", "timings_per_token", "add_special_tokens",
		"skip_special_tokens", "spaces_between_special_tokens", "cache_salt", "priority", "request_id")
	b.Refuse("there is no beam search", "use_beam_search", "length_penalty", "early_stopping")
	b.Refuse("the output never includes stop strings", "include_stop_str_in_output")
	b.Refuse("use logprobs", "prompt_logprobs", "truncate_prompt_tokens", "return_tokens",
		"return_tokens_as_token_ids", "return_token_ids")
	b.Refuse("the sampler has no such step", "typical_p", "mirostat", "mirostat_tau", "mirostat_eta", "dynatemp_range",
		"xtc_probability", "dry_multiplier", "top_n_sigma", "samplers", "bad_words", "allowed_token_ids",
		"logits_processors")
	s.readFormat(b, m)
	b.Refuse("use response_format, guided_json, guided_regex, guided_choice or grammar", "json_schema",
		"guided_grammar",
		"guided_whitespace_pattern", "guided_decoding_backend", "structured_outputs")
	return s
}

// readSeed reads the seed, modulo 2⁶⁴.
func (s *settings) readSeed(b *api.Body) {
	var seed api.Integer
	if b.Decode("seed", &seed, "a 64-bit integer") {
		s.seed = uint64(seed)
	}
}

func (s *settings) readStops(b *api.Body, m *model) {
	b.Strings("stop", &s.stops, maxStops)
	for _, text := range s.stops {
		if len(text) > maxStopText {
			b.Unsupported("stop", "a stop string has %d bytes: at most %d are allowed", len(text), maxStopText)
		}
	}
	var ids api.Integers
	if b.Decode("stop_token_ids", &ids, "a list of token ids") {
		s.stopIDs = ids
		if err := m.check(s.stopIDs); err != nil {
			b.Unsupported("stop_token_ids", "stop_token_ids: %v", err)
		} else if len(s.stopIDs) > maxBiases {
			b.Fail("stop_token_ids", "stop_token_ids has %d ids: at most %d are allowed", len(s.stopIDs), maxBiases)
		}
	}
	s.ends = slices.Concat(m.stops, s.stopIDs)
	b.Bool("ignore_eos", &s.ignoreEOS)
}

// bias is added to the logit of token id.
type bias struct {
	id int
	x  float32
}

// readBias reads biases in the order of the request. Keys are token ids in decimal without leading zeros, so that no
// token occurs under two names.
func (s *settings) readBias(b *api.Body, m *model) {
	const name, want = "logit_bias", "logit_bias: want an object of numbers by token id"
	raw := b.Raw(name)
	if raw == nil {
		return
	}
	r := jsonread.NewReader(raw)
	err := r.Object(func(token string) error {
		id, err := strconv.Atoi(token)
		if err != nil || strconv.Itoa(id) != token || id < 0 || id >= m.vocab {
			b.Unsupported(name, "logit_bias: %.40q is not a token id in decimal; the vocabulary has %d tokens",
				token, m.vocab)
		}
		text, err := r.Number()
		if err != nil {
			return err
		}
		x, err := strconv.ParseFloat(text, 64)
		if !(math.Abs(x) <= maxBias) {
			b.Fail(name, "logit_bias of token %.40q: must be between %d and %d", token, -maxBias, maxBias)
		}
		s.bias = append(s.bias, bias{id, float32(x)})
		return err
	})
	if err != nil {
		b.Fail(name, "%s: %v", want, err)
	}
	if len(s.bias) > maxBiases {
		b.Fail(name, "logit_bias has %d tokens: at most %d are allowed", len(s.bias), maxBiases)
	}
}

func (s *settings) readStreamOptions(b *api.Body) {
	var o struct {
		IncludeUsage bool `json:"include_usage"`
	}
	if b.Decode("stream_options", &o, "an object such as {\"include_usage\": true}") {
		s.usage = o.IncludeUsage
		if !s.stream {
			b.Unsupported("stream_options", "stream_options needs stream to be true")
		}
	}
}

// text returns the engine request of choice i, 0 ≤ i < n.
func (s *settings) text(m *model, i int) engine.Request {
	r := engine.Request{
		Sampling: s.sampling, MaxTokens: s.maxTokens, StopTexts: s.stops, StopTokens: s.stopIDs, Adjust: s.adjust(),
		Speculate: engine.SpeculateAuto, Prediction: s.prediction,
	}
	if s.format != nil {
		before, constrain := r.Adjust, s.constrain(m)
		r.Adjust = func(generated []int, logits []float32) {
			if before != nil {
				before(generated, logits)
			}
			m.formats.run(func() { constrain(generated, logits) })
		}
	}
	r.Sampling.Seed = seedOf(s.seed, i)
	if !s.ignoreEOS {
		r.StopTokens = s.ends
	}
	decoder := m.Tokenizer.NewStream(true)
	decoder.ShowSpecial = s.showSpecial
	if r.Decoder = decoder; s.marked {
		r.Decoder = m.harmony.Marked(decoder)
	}
	return r
}

// seedOf returns the seed of choice i (N32). Choice 0 has the seed of the request, so that it equals the output of
// `lowpack run` with this seed.
func seedOf(seed uint64, i int) uint64 {
	if i == 0 {
		return seed
	}
	z := seed + bits.RotateLeft64(uint64(i)*0xd1b54a32d192ed03, 32)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// adjust returns a logits processor that applies biases, penalties and min_tokens (N31); nil = none of them is set.
func (s *settings) adjust() func([]int, []float32) {
	if len(s.bias) == 0 && s.frequency == 0 && s.presence == 0 && s.minTokens == 0 {
		return nil
	}
	counts := map[int]int{}
	counted := 0
	return func(generated []int, logits []float32) {
		for _, bias := range s.bias {
			logits[bias.id] = clamp(logits[bias.id] + bias.x)
		}
		for ; counted < len(generated); counted++ {
			counts[generated[counted]]++
		}
		for id, n := range counts {
			logits[id] = clamp(clamp(logits[id]-float32(s.frequency*float32(n))) - s.presence)
		}
		if len(generated) < s.minTokens {
			for _, id := range s.ends {
				logits[id] = -math.MaxFloat32
			}
		}
	}
}

func clamp(x float32) float32 { return max(-math.MaxFloat32, min(x, math.MaxFloat32)) }
