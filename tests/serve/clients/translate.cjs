// Asks as any program with the npm client would, one after the other: node translate.cjs CLIENT '[{"query": …}, …]'
const [, , client, asked] = process.argv;
const { translate } = require(client);
(async () => {
  const answers = [];
  for (const one of JSON.parse(asked)) {
    answers.push(await translate(one).catch((error) => ({ error: error.message })));
  }
  console.log(JSON.stringify(answers));
})();
