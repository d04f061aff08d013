// The sentences with which the page begins; this project wrote them.

/** Words in two senses, with two uses of each. They were checked with the models of this project. */
const SENSES = [
  {
    word: "play",
    title: "play: theatre, game",
    senses: [
      { name: "on a stage", sentences: ["She wrote a play about her family.", "The actors rehearsed the play for a month."] },
      { name: "a game", sentences: ["They play football in the park.", "The children play in the garden."] },
    ],
    note: "The easy case: these senses are also a noun and a verb, so grammar alone tells them apart.",
  },
  {
    word: "plant",
    title: "plant: flower, factory",
    senses: [
      { name: "that grows", sentences: ["The plant has yellow flowers.", "The leaves of the plant are poisonous."] },
      { name: "a factory", sentences: ["The company closed its plant in Ohio.", "Two thousand men worked in the steel plant."] },
    ],
    note: "Two nouns: grammar is of little help here, and the senses part less far.",
  },
  {
    word: "left",
    title: "left: went, side",
    senses: [
      { name: "went away", sentences: ["She left the house early.", "He left the room without a word."] },
      { name: "a side", sentences: ["Turn to the left side.", "He wore a ring on his left hand."] },
    ],
    note: "A verb and an adjective that only share their letters.",
  },
  {
    word: "crane",
    title: "crane: a failure",
    senses: [
      { name: "a machine", sentences: ["A crane lifted the steel onto the roof.", "The crane in the harbour can carry forty tons."] },
      { name: "a bird", sentences: ["The crane is a tall wading bird.", "A crane stood on one leg in the marsh."] },
    ],
    note: "Where it fails: the place in the sentence (A crane ..., The crane ...) counts for more here than the sense.",
  },
];

/** Words in sentences in which they have different meanings. */
const WORD = [
  {
    word: "play",
    text: "She wrote a play about her family.\nThe actors rehearsed the play for a month.\nThey play football in the park.",
  },
  { word: "light", text: "He switched on the light.\nThe light of the lamp was weak.\nShe carried a light bag." },
  { word: "left", text: "She left the house early.\nHe left the room.\nTurn to the left side." },
];

/** Sentences with a word that nobody expects. */
const EXPECTS = [
  "She wrote a long letter to her sister.\nShe wrote a long teapot to her sister.",
  "The old man the boats.",
  "The river flows through the city.",
];

/** Uses of a word, labelled with their senses. */
const USES = [
  {
    word: "bank",
    text: `money | The bank refused to lend him the money to buy the farm.
money | She worked as a clerk in a bank until the war broke out.
money | Thousands of people took their savings out of the bank in a single day.
money | In 1897 the company borrowed two million dollars from a French bank.
money | The thieves dug a tunnel from the cellar of the shop into the bank next door.
money | The bank raised its interest rates twice this year.
money | He opened an account at the bank on the corner.
money | The bank lost millions when the market fell.
money | She asked the bank for a loan to start her business.
money | Two masked men robbed the bank at noon.
river | They tied the boat to a tree on the left bank and slept under the stars.
river | The old mill stands on the north bank of the Thames.
river | Reeds and willows grew along the muddy bank of the stream.
river | A crocodile slid down the bank and vanished into the brown water.
river | He climbed the steep bank and shook the water out of his boots.
river | We walked along the bank of the river until sunset.
river | Ducks built a nest on the grassy bank of the pond.
river | The flood washed away the eastern bank of the canal.
river | A fisherman sat on the bank with his feet in the water.
river | The village lies on the southern bank of the Danube.`,
  },
  {
    word: "light",
    text: `lamp | There was no light in the window, and the door was locked.
lamp | The light of the candle fell on her face as she read.
lamp | A thin beam of light came through the keyhole.
lamp | Plants turn the energy of light into sugar.
lamp | He switched off the light and lay awake in the dark.
lamp | The light of the moon lay on the water.
lamp | A blue light flashed on top of the police car.
lamp | Turn on the light, I can not see the map.
lamp | The light in the studio comes from large windows to the north.
weight | The new bicycle is so light that a child can lift it with one hand.
weight | She packed a light bag and left the heavy trunk behind.
weight | Aluminium is a light metal that does not rust.
weight | The box was surprisingly light for its size.
weight | Soldiers on the march carried only light weapons and three days of food.
weight | The tent is light enough to carry on your back.
weight | He wore a light coat and thin shoes.
weight | After a light lunch we went back to work.
weight | The racing boat is long, narrow and very light.`,
  },
  {
    word: "bat",
    text: `animal | The bat hangs upside down in the cave and hunts insects at night.
animal | This small bat feeds on the fruit of wild figs.
animal | A bat flew in through the open window and circled above our heads.
animal | The wings of a bat are made of skin stretched between its fingers.
animal | Biologists found that the bat sleeps through the winter in hollow trees.
animal | A bat came out of the old barn at dusk.
animal | The bat finds moths in the dark by the echo of its voice.
animal | A young bat clings to its mother as she flies.
animal | The biologist held the tiny bat in a leather glove.
club | He swung the bat and hit the ball over the fence.
club | The boy saved his money to buy a baseball bat and a glove.
club | Each cricketer rubs his bat with oil before the season begins.
club | She dropped the bat and ran to first base.
club | The police found a wooden bat in the trunk of his car.
club | He broke his bat on the first ball of the innings.
club | The batter gripped the bat and waited for the pitch.
club | She gave her son a ball and a wooden bat.
club | The old cricket bat hung on the wall of the club.`,
  },
];

export const EXAMPLES = { language: "en", senses: SENSES, word: WORD, expects: EXPECTS, uses: USES };
