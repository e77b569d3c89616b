"""What OpenVINO GenAI makes of a directory, by its own tokenizer. The first argument is the directory, the second a JSON object:

texts      texts: tokens with and without those around a text, and the text of these tokens
chats      lists of messages: the text that its chat template renders, with the beginning of an answer
generate   texts that are continued greedily by `new` tokens, as they are; chat: messages that are answered likewise
device, options   of the pipeline; without them CPU, and none but for float32 where bfloat16 would be the default
Prints {"encoded": [[with, without, text], …], "rendered": […], "continued": […], "answered": […]}.
"""
import json, sys
import openvino_genai as genai

folder, spec = sys.argv[1], json.loads(sys.argv[2])
answer = {"encoded": [], "rendered": [], "continued": [], "answered": []}
tokenizer = genai.Tokenizer(folder)
for text in spec.get("texts") or []:
    both = [tokenizer.encode(text, add_special_tokens=special).input_ids.data.reshape(-1).tolist() for special in (True, False)]
    answer["encoded"].append(both + [tokenizer.decode(both[1], skip_special_tokens=False)])
for chat in spec.get("chats") or []:
    answer["rendered"].append(tokenizer.apply_chat_template(chat, add_generation_prompt=True))

if spec.get("generate") or spec.get("chat"):
    pipe = genai.LLMPipeline(folder, spec.get("device", "CPU"), **spec.get("options", {"INFERENCE_PRECISION_HINT": "f32"}))
    config = genai.GenerationConfig()
    config.max_new_tokens, config.do_sample, config.ignore_eos, config.apply_chat_template = spec["new"], False, True, False
    for text in spec.get("generate") or []:
        answer["continued"].append(str(pipe.generate(text, config)))
    config.apply_chat_template = True
    for chat in spec.get("chat") or []:
        history = genai.ChatHistory()
        for message in chat:
            history.append(message)
        answer["answered"].append(pipe.generate(history, config).texts[0])
print(json.dumps(answer))
