// Prints each error and warning that AsyncAPI's own parser has about the document
// named on the command line, one a line; exits with 1 if there is any.
const { readFileSync } = require("node:fs");
const { Parser } = require("@asyncapi/parser");

const [source] = process.argv.slice(2);
// Severities: 0 error, 1 warning, 2 information, 3 hint.
const NAMES = ["error", "warning"];

new Parser().parse(readFileSync(source, "utf8"), { source }).then(({ diagnostics }) => {
  const found = diagnostics.filter(({ severity }) => severity < NAMES.length);
  for (const { severity, code, path, message } of found) {
    console.log(`${NAMES[severity]} ${code} ${path.join(".")}: ${message}`);
  }
  process.exitCode = found.length > 0 ? 1 : 0;
});
