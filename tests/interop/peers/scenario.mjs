// What a TypeScript client tries on the everything server: every feature once, and what it saw as one JSON object.
//
// typescript_sdk_1.mjs and typescript_sdk_2.mjs connect, each with its version of the SDK, and hand their client to
// `run`; `dialect` holds what differs between the versions. It does what scenario.py does, step for step, with the
// same data from scenario.json. The judging is done in test_foreign_clients.py.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';

export const SCENARIO = JSON.parse(readFileSync(new URL('scenario.json', import.meta.url), 'utf8'));
export const WATCHED = 'test://watched-resource';
const TIMEOUT = 20_000;

/** Imports from the folder where the peers are installed, which is not an ancestor of this one. */
export const requirePeer = createRequire(`${process.env.MCP_REF_PEERS}/package.json`);

/**
 * dialect: {
 *   era                            legacy | modern
 *   callTool(name, args, options)  options: {onprogress, signal}
 *   callLoggingAt(level, tool)     calls a tool so that the server may log at this level and above
 *   watch(touch)                   calls `touch`, returns once an update of WATCHED has arrived; then watches no more
 * }
 */
export async function run(client, seen, dialect) {
  const call = (name, args, options) => dialect.callTool(name, args, { timeout: TIMEOUT, ...options });
  const barrier = async () => {
    for (let i = 0; i < 2; i++) await call('echo', { message: 'barrier' });
  };
  const report = { ping: dialect.era === 'legacy' ? await attempt(client.ping()) : null };
  // Before the tools are listed: the client does not know yet which arguments go into headers, too.
  report.unlisted = await attempt(call('query_by_region', { region: 'north', query: 'snow' }));

  report.tools = await everyPage((page) => client.listTools(page), 'tools');
  report.resources = await everyPage((page) => client.listResources(page), 'resources');
  report.resourceTemplates = await everyPage((page) => client.listResourceTemplates(page), 'resourceTemplates');
  report.prompts = await everyPage((page) => client.listPrompts(page), 'prompts');

  report.calls = await each(SCENARIO.calls, ([name, args]) => attempt(call(name, args)));
  report.reads = await each(SCENARIO.reads.map((uri) => [uri]), ([uri]) => attempt(client.readResource({ uri })));
  report.gets = await each(SCENARIO.prompts, ([name, args]) => attempt(client.getPrompt({ name, arguments: args })));
  report.completion = await attempt(
    client.complete({
      ref: { type: 'ref/prompt', name: 'test_prompt_with_arguments' },
      argument: { name: 'arg1', value: 'par' }
    })
  );

  const read = async (name) =>
    Number((await client.readResource({ uri: `test://counted/${name}` })).contents[0].text);
  report.kept = [await read('kept'), await read('kept')];
  const passing = await read('passing');
  let later = passing;
  for (let tries = 0; later === passing && tries < 250; tries++) await sleep(20), (later = await read('passing'));
  report.passing = [passing, later];

  // This SDK drops progress that it reads in one piece with the result, so the tool must pause before it returns.
  const steps = [];
  const onprogress = ({ progress, total, message }) => steps.push({ progress, total, message });
  report.progress = { steps, result: await attempt(call('test_tool_with_progress', {}, { onprogress })) };
  await until(() => steps.length >= 3);

  const logged = await attempt(dialect.callLoggingAt('info', 'test_tool_with_logging'));
  await until(() => seen.logs.length >= 3);
  const atInfo = seen.logs.splice(0);
  await attempt(dialect.callLoggingAt('error', 'test_tool_with_logging'));
  await barrier();
  report.logs = { result: logged, 'at info': atInfo, 'at error': seen.logs };

  const touch = () => call('touch_watched', {});
  await dialect.watch(touch);
  const heard = seen.updated.splice(0);
  await touch();
  await barrier();
  report.updates = { 'while subscribed': heard, afterwards: seen.updated };

  // Cancel a call that has visibly begun; then other calls must still work.
  const abort = new AbortController();
  const began = Promise.withResolvers();
  const slow = call('slow', { seconds: 60 }, { signal: abort.signal, onprogress: () => began.resolve() });
  const outcome = slow.then(() => false, () => true); // aborted calls reject
  await Promise.race([began.promise, sleep(TIMEOUT, undefined, { ref: false })]);
  abort.abort('a test');
  const cancelled = await outcome;
  await barrier();
  report.cancellation = { cancelled, 'next call': await attempt(call('slow', { seconds: 0.1 })) };

  report.sampling = seen.sampling;
  report.elicitation = seen.elicitation;
  return report;
}

/** Connects by `connect`, runs, closes, and only then prints: a client that cannot close prints nothing. */
export async function main(connect) {
  const seen = { logs: [], updated: [], sampling: [], elicitation: [] };
  const { client, initialize, dialect } = await connect(seen);
  const report = { initialize, ...(await run(client, seen, dialect)) };
  await client.close();
  console.log(JSON.stringify(report));
}

// What a test client answers. ----------------------------------------------------------------------------------------

export function sampled(params) {
  const text = `sampled: ${params.messages[0].content.text}`;
  return { role: 'assistant', content: { type: 'text', text }, model: 'a model', stopReason: 'endTurn' };
}

export function elicited(params) {
  if (['decline', 'cancel'].includes(params.message)) return { action: params.message };
  const fields = Object.entries(params.requestedSchema.properties);
  return { action: 'accept', content: Object.fromEntries(fields.map(([name, schema]) => [name, filledIn(schema)])) };
}

/** A value for a form's field: its default, or its first choice, or some text. */
function filledIn(schema) {
  if ('default' in schema) return schema.default;
  if (schema.type === 'boolean') return true;
  if (schema.type === 'array') return [filledIn({ type: 'string', ...schema.items })];
  const choices = schema.enum ?? (schema.oneOf ?? schema.anyOf ?? []).map((choice) => choice.const);
  return choices.length > 0 ? choices[0] : 'an answer';
}

// Small tools. -------------------------------------------------------------------------------------------------------

/** The result, or the JSON-RPC error that came in its place. */
async function attempt(promise) {
  try {
    return await promise;
  } catch (error) {
    if (typeof error.code !== 'number') throw error;
    return { error: { code: error.code, message: error.message, data: error.data } };
  }
}

async function each(items, action) {
  const results = [];
  for (const item of items) results.push([...item, await action(item)]);
  return results;
}

async function everyPage(listPage, items) {
  const found = [];
  let cursor;
  for (let i = 0; i < 20; i++) {
    const page = await listPage(cursor === undefined ? {} : { cursor });
    found.push(...page[items]);
    cursor = page.nextCursor;
    if (cursor === undefined) return found;
  }
  throw new Error(`${items}: the 20th page still has a nextCursor`);
}

/** Waits for a notification that must come. The report shows if it did not. */
export async function until(condition) {
  const deadline = Date.now() + 5_000;
  while (!condition() && Date.now() < deadline) await sleep(10);
}
