package model

// CWM: Llama blocks with a sliding window in three of four.
var cwm = family{
	Info: Info{
		Name:          "cwm",
		Architectures: []string{"CwmForCausalLM"},
		Types:         []string{"cwm"},
		Models:        "Code World Model (CWM) 32B",
	},
	defaults: `{"num_key_value_heads":8,"head_dim":128,"hidden_act":"silu","max_position_embeddings":131072,"rms_norm_eps":1e-5,"sliding_window":8192,
"eos_token_id":[128001,128008,128009],
"rope_parameters":{"rope_type":"llama3","rope_theta":1000000.0,"factor":16.0,"high_freq_factor":4.0,"low_freq_factor":1.0,"original_max_position_embeddings":8192}}`,
	bos: 128000,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 1e6)
		d := describe(k, c, has, false)
		mlpBiases(k, d)
		windows(k, d, func(i int) bool { return i%4 != 0 })
		return d
	},
}
