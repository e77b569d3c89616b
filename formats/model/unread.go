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

// unread lists the keys of a config.json that nothing here reads and silent does not know, those of objects with the
// name of the object in front. Whoever wrote one may have meant another model by it.
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

// silent are keys that are not read and make no other model: with them changed, transformers computes the same
// logits, which interop tests try with every family.
var silent = set(
	// Package quantized reads these.
	"quantization quantization_config",
	// What wrote the file, and with what code.
	"transformers_version _name_or_path auto_map unsloth_version unsloth_fixed tokenizer_class transformers.js_config",
	// The type that a runtime computes with: here it is float32, beside the products of int8.
	"dtype torch_dtype use_bfloat16",
	// Training and fine-tuning.
	"initializer_range attention_dropout embd_pdrop resid_pdrop pretraining_tp output_router_logits router_aux_loss_coef "+
		"router_jitter_noise neftune_noise_alpha finetuning_task task_specific_params problem_type id2label label2id "+
		"pruned_heads",
	// How a runtime computes and what it returns.
	"use_cache cache_implementation attn_implementation _attn_implementation _attn_implementation_autoset "+
		"_experts_implementation "+
		"use_kernels output_attentions output_hidden_states output_scores return_dict return_dict_in_generate torchscript "+
		"tf_legacy_loss chunk_size_feed_forward use_flash_attn",
	// Of encoders and decoders that read one another.
	"is_decoder is_encoder_decoder add_cross_attention cross_attention_hidden_size tie_encoder_decoder "+
		"decoder_start_token_id",
	// Tokens that the engine needs not know.
	"pad_token_id sep_token_id mask_token_id eod_token_id cls_token_id unk_token_id prefix",
	// How a text is sampled, before generation_config.json.
	"bad_words_ids begin_suppress_tokens diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size "+
		"exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id length_penalty max_length min_length "+
		"no_repeat_ngram_size num_beam_groups num_beams num_return_sequences remove_invalid_values repetition_penalty "+
		"suppress_tokens temperature top_k top_p typical_p",
)

// Notes tell a user about Unread; nil if there is nothing to tell.
func (d *Description) Notes() []string {
	if len(d.Unread) == 0 {
		return nil
	}
	few, more := d.Unread, ""
	if len(few) > maxNoted {
		few, more = few[:maxNoted], fmt.Sprintf(" and %d more", len(few)-maxNoted)
	}
	return []string{fmt.Sprintf("config.json has keys that lowpack does not know: %q%s; "+
		"a program that knows them may compute another model: compare answers with those of one", few, more)}
}

// maxNoted keys are named in the note.
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
