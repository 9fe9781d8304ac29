// What the clients' scripts have in common.
import assert from 'node:assert/strict';

export const baseURL = process.env.HERMES_BASE_URL;
assert.ok(baseURL, 'HERMES_BASE_URL is not set');
export const model = 'tester';

// Runs scenarios in order and prints one line for each that passed.
export async function run(scenarios) {
  for (const [name, scenario] of Object.entries(scenarios)) {
    try {
      await scenario();
    } catch (e) {
      console.error(`FAILED ${name}:`, e);
      process.exit(1);
    }
    console.log(`ok ${name}`);
  }
}
