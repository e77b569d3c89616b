"""The cohere package ranks documents, by the interfaces of /v2/rerank and /v1/rerank, and understands errors. argv: base
URL, key, model, query, documents. Prints pairs of index and score, the best first."""
import asyncio, json, sys
import cohere
from expect import check, refused

url, key, model, query, *documents = sys.argv[1:]
client = cohere.ClientV2(api_key=key, base_url=url)
answer = client.rerank(model=model, query=query, documents=documents)
pairs = [(r.index, r.relevance_score) for r in answer.results]
check(len(pairs) == len(documents), answer)


def same(answer, n=len(documents)):
    check([(r.index, r.relevance_score) for r in answer.results] == pairs[:n], f"{answer}, want {pairs[:n]}")


same(client.rerank(model=model, query=query, documents=documents, top_n=2), 2)
same(asyncio.run(cohere.AsyncClientV2(api_key=key, base_url=url).rerank(model=model, query=query, documents=documents)))
older = cohere.Client(api_key=key, base_url=url).rerank(model=model, query=query, documents=documents, return_documents=True)
same(older)
check([r.document.text for r in older.results] == [documents[i] for i, _ in pairs], older)

stranger = cohere.ClientV2(api_key="wrong", base_url=url)
refused(cohere.UnauthorizedError, lambda: stranger.rerank(model=model, query=query, documents=documents))
refused(cohere.NotFoundError, lambda: client.rerank(model="absent", query=query, documents=documents))
for more in ({"max_tokens_per_doc": 10}, {"relevant_spans": {"top_k": 1}}):
    refused(cohere.BadRequestError, lambda: client.rerank(model=model, query=query, documents=documents, **more))
print(json.dumps(pairs))
