// Asks for an answer, and says why there is none.
export async function answer(url: string, body: object): Promise<string> {
  const told = await (await fetch(`${url}/v1/chat/completions`, { method: "POST", body: JSON.stringify(body) })).json();
  if (told.error) throw new Error(told.error.message);
  return told.choices[0].message.content;
}
