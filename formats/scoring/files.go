package scoring

import (
	"cmp"
	"path"

	"github.com/lowpack/lowpack/formats/internal/modules"
	"github.com/lowpack/lowpack/formats/model"
)

// promptName is the name under which the prompt is saved.
const promptName = "query"

// Files returns the files of a checkpoint that declare the scoring, by name, for the model that d describes: Parse and
// sentence-transformers read them.
func (s *Scoring) Files(d *model.Description) map[string][]byte {
	list := []modules.Module{
		{Index: 0, Name: "0", Type: "sentence_transformers.base.modules.transformer.Transformer"},
		{Index: 1, Name: "1", Path: path.Dir(scoreFile),
			Type: "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"},
	}
	logits := func(more map[string]any) map[string]any {
		more["method"], more["method_output_name"] = "forward", "logits"
		return more
	}
	transformer := map[string]any{"transformer_task": task, "module_output_name": logitsName,
		"modality_config": map[string]any{"text": logits(map[string]any{}),
			"message": logits(map[string]any{"format": s.Format})},
		"processing_kwargs": map[string]any{"chat_template": map[string]any{"add_generation_prompt": s.Generation}},
		// Without a length, that of tokenizer_config.json would be it.
		"max_seq_length": cmp.Or(s.MaxTokens, d.MaxPositions)}
	score := map[string]any{"true_token_id": s.True, "false_token_id": s.False, "module_input_name": logitsName}
	if s.False == None {
		score["false_token_id"] = nil
	}
	settings := map[string]any{"model_type": modelType, "prompts": map[string]any{}, "default_prompt_name": nil}
	if s.Prompt != "" {
		settings["prompts"], settings["default_prompt_name"] = map[string]any{promptName: s.Prompt}, promptName
	}
	for _, a := range activations {
		if a.activation == s.Activation {
			settings[activation] = a.classes[0]
		}
	}
	return map[string][]byte{modules.ListFile: modules.Indented(list),
		modules.TransformerFile: modules.Indented(transformer), scoreFile: modules.Indented(score),
		modules.SettingsFile: modules.Indented(settings)}
}
