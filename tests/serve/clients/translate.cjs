// Sends requests with the npm client, one after the other: node translate.cjs CLIENT '[{"query": …}, …]'
const [, , client, requests] = process.argv;
const { translate } = require(client);
(async () => {
  const responses = [];
  for (const request of JSON.parse(requests)) {
    responses.push(await translate(request).catch((error) => ({ error: error.message })));
  }
  console.log(JSON.stringify(responses));
})();
