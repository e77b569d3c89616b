package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/jsonread"
)

// asked are the keys of a config.json that a family reads, by object.
type asked map[string]map[string]bool

func (a *asked) add(object, key string) {
	if *a == nil {
		*a = asked{}
	}
	if (*a)[object] == nil {
		(*a)[object] = map[string]bool{}
	}
	(*a)[object][key] = true
}

// unread lists the keys of a config.json that are neither read nor in silent, keys of objects as "object.key". The
// author may mean a different model by them.
func (k *keys) unread() (list []string) {
	for i := range k.v.Members {
		m := &k.v.Members[i]
		object := k.file + ": " + m.Key
		switch {
		case m.Value.Kind == jsonread.Null || silent[m.Key]:
		case m.Value.Kind == jsonread.Object && len(m.Value.Members) == 0:
		case !(*k.asked)[k.file][m.Key]:
			list = append(list, m.Key)
		case m.Value.Kind == jsonread.Object && (*k.asked)[object] != nil:
			for _, key := range (&keys{file: object, v: &m.Value, asked: k.asked}).unread() {
				list = append(list, m.Key+"."+key)
			}
		}
	}
	slices.Sort(list)
	return list
}

// silent lists keys that are not read and do not change the model: with them changed, transformers computes the same
// logits, which interop tests check with every family.
var silent = set(
	// Read by package quantized.
	"quantization quantization_config",
	// The program and code that wrote the file.
	"transformers_version _name_or_path auto_map unsloth_version unsloth_fixed tokenizer_class transformers.js_config",
	// The compute type of a runtime: here it is float32, and int8 for products.
	"dtype torch_dtype use_bfloat16",
	// Training and fine-tuning.
	"initializer_range attention_dropout embd_pdrop resid_pdrop residual_dropout hidden_dropout "+
		"embedding_dropout pretraining_tp output_router_logits "+
		"router_aux_loss_coef router_jitter_noise neftune_noise_alpha finetuning_task task_specific_params "+
		"problem_type id2label label2id pruned_heads",
	// How a runtime computes and what it returns.
	"use_cache cache_implementation attn_implementation _attn_implementation _attn_implementation_autoset "+
		"_experts_implementation use_kernels output_attentions output_hidden_states output_scores return_dict "+
		"return_dict_in_generate torchscript tf_legacy_loss chunk_size_feed_forward use_flash_attn",
	// For encoders and decoders with cross attention.
	"is_decoder is_encoder_decoder add_cross_attention cross_attention_hidden_size tie_encoder_decoder "+
		"decoder_start_token_id",
	// Tokens that the engine does not need.
	"pad_token_id _pad_token_id sep_token_id mask_token_id eod_token_id cls_token_id unk_token_id prefix",
	// Sampling settings, from before generation_config.json.
	"bad_words_ids begin_suppress_tokens diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size "+
		"exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id length_penalty max_length "+
		"min_length no_repeat_ngram_size num_beam_groups num_beams num_return_sequences remove_invalid_values "+
		"repetition_penalty suppress_tokens temperature top_k top_p typical_p",
)

// Notes describes Outside and Unread for users; nil if both are empty.
func (d *Description) Notes() (notes []string) {
	if len(d.Outside) > 0 {
		notes = append(notes, "the model reads images as well; lowpack takes its text part alone, and refuses images")
	}
	if len(d.Unread) == 0 {
		return notes
	}
	few, more := d.Unread, ""
	if len(few) > maxNoted {
		few, more = few[:maxNoted], fmt.Sprintf(" and %d more", len(few)-maxNoted)
	}
	return append(notes, fmt.Sprintf("config.json has keys that lowpack does not know: %q%s; "+
		"a program that knows them may compute another model: compare answers with those of one", few, more))
}

// maxNoted is the number of keys that the note names.
const maxNoted = 10

// Silent lists the keys of a config.json that are not read, by name.
func Silent() []string { return slices.Sorted(maps.Keys(silent)) }

func set(lines ...string) map[string]bool {
	out := map[string]bool{}
	for _, line := range lines {
		for _, key := range strings.Fields(line) {
			out[key] = true
		}
	}
	return out
}
