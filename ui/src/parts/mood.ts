/** How good or bad something is: it decides colour and shape. */
export type Mood = 'good' | 'unclear' | 'waiting' | 'bad';
