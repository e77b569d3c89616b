"""What onnxruntime-genai generates from a directory, by its own tokenizer and engine for chat templates: the second argument is a JSON object
{"texts": […], "new": n, "chats": [[message, …], …]}."""
import json, sys
import onnxruntime_genai as og

folder, spec = sys.argv[1], json.loads(sys.argv[2])
model = og.Model(folder)
tokenizer = og.Tokenizer(model)
chats = [tokenizer.apply_chat_template(messages=json.dumps(messages), add_generation_prompt=True) for messages in spec["chats"]]
answer = {"prompts": [], "tokens": [], "chats": chats}
for text in spec["texts"]:
    ids = [int(i) for i in tokenizer.encode(text)]
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=len(ids) + spec["new"], min_length=len(ids) + spec["new"])
    generator = og.Generator(model, params)
    generator.append_tokens(ids)
    made = []
    while len(made) < spec["new"]:
        generator.generate_next_token()
        made.append(int(generator.get_next_tokens()[0]))
    answer["prompts"].append(ids)
    answer["tokens"].append(made)
print(json.dumps(answer))
