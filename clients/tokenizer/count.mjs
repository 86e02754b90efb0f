// Reads a list of tools as JSON on standard input; writes how many tokens each takes, by the vocabulary of current models.

import { countTokens } from "gpt-tokenizer/encoding/o200k_base";

let text = "";
for await (const piece of process.stdin) text += piece;
const tokens = {};
for (const { name, description, inputSchema } of JSON.parse(text)) {
  tokens[name] = countTokens(JSON.stringify({ name, description, inputSchema }));
}
console.log(JSON.stringify(tokens));
