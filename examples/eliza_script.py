"""What the conversational program knows: its rules, its words and its turns of phrase. Data only.

Patterns are words with wildcards: `+` captures one or more words, `@name` captures one word of `WORD_CLASSES`,
`a|b` is either word, a leading `^` ties the pattern to the start of a clause. The captures, pronouns turned round,
are `{0}`, `{1}` in the lines.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    name: str
    rank: int
    patterns: tuple[str, ...]
    lines: tuple[str, ...]
    remember: bool = False


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


WORD_CLASSES = {
    "family": "mother father mum mom dad sister brother son daughter wife husband partner grandmother grandfather "
    "grandma grandpa aunt uncle cousin nephew niece parents children kids twins family baby",
    "worry": "afraid scared worried nervous anxious terrified frightened",
    "low": "sad tired lonely exhausted lost unhappy bored miserable homesick empty guilty ashamed jealous",
    "glad": "happy glad proud relieved excited grateful calm hopeful content",
    "machine": "computer laptop phone robot program software printer algorithm server keyboard password spreadsheet",
    "work": "work job boss office manager colleague colleagues meeting meetings shift interview salary promotion",
    "study": "exam exams test school university thesis teacher class homework essay lecture professor",
    "growing": "garden tomatoes roses seeds tree trees soil balcony greenhouse compost bees weeds harvest",
    "music": "piano violin guitar song songs music choir band concert cello orchestra accordion",
    "house": "house flat apartment kitchen boxes rent landlord neighbour neighbours attic cellar roof",
    "animal": "dog cat horse parrot hamster puppy kitten hens goat tortoise",
    "food": "bread soup cake cooking recipe dinner breakfast bakery dough cheese pancakes",
    "body": "knee back heart doctor hospital headache surgery pain nurse teeth dentist hands",
    "journey": "train flight journey travel trip airport border ticket ferry road map suitcase",
    "rest": "sleep insomnia nap nights awake midnight",
    "money": "money debt savings loan bank bill bills invoice budget",
    "friend": "friend friends friendship neighbour roommate flatmate",
    "sport": "football running marathon swimming bicycle climbing chess team race",
    "weather": "rain snow storm wind sun winter spring summer autumn fog",
    "art": "painting drawing book novel poem poems photograph photographs camera pottery clay paint",
    "everyone": "everyone everybody nobody always never",
}

RULES = (
    Rule("farewell", 12, ("goodbye", "bye", "good night", "see you", "have to go", "until next time"), (
        "Then let us leave it there for today; I keep the thread.",
        "Go well. I will still know where we stopped.",
        "Until the next time, then. What will you take with you from this?",
    )),
    Rule("thanks", 11, ("thank you", "thanks"), (
        "You did the telling; I only kept the order.",
        "You are welcome. What made it worth saying aloud?",
        "Gladly. Is there something you left out on purpose?",
    )),
    Rule("dream", 10, ("i dreamed|dreamt that|of|about +", "i dreamed|dreamt +", "in my|the dream +"), (
        "{0}: and what was the last thing you saw before you woke?",
        "If you could walk back into that dream, what would you do differently?",
        "Who was missing from it?",
    ), remember=True),
    Rule("dreaming", 9, ("dream", "dreams", "nightmare", "nightmares"), (
        "Does the dream leave you a mood for the day?",
        "Which part of the dream belongs to the daytime?",
        "What would the dream say if it could be plain?",
    )),
    Rule("kin", 9, ("my @family",), (
        "What is it like between you and your {0}?",
        "What would your {0} say if I asked instead of you?",
        "When did you last laugh together, you and your {0}?",
        "Is there something your {0} does not know yet?",
    ), remember=True),
    Rule("worry", 8, ("i am|feel|was so|very|really|a|little|still @worry", "i am|feel|was|felt @worry"), (
        "When you are {0}, where do you notice it first?",
        "What is the smallest part of it that you could face today?",
        "Who is {0} with you?",
    ), remember=True),
    Rule("low", 8, ("i am|feel|was|felt so|very|really|just|too @low", "i am|feel|was|felt @low"), (
        "Being {0} has a shape. What does yours look like?",
        "How long has {0} been the word for it?",
        "And on a day when you are less {0}, what is different?",
    ), remember=True),
    Rule("glad", 8, ("i am|feel|was|felt so|very|really|quite @glad", "i am|feel|was|felt @glad"), (
        "Good. Stay with that a little: what made you {0}?",
        "Who gets to hear that you are {0}?",
        "What would keep it so?",
    ), remember=True),
    Rule("loss", 8, ("i|we miss|lost +", "i|we have lost +"), (
        "Where do you look for it when nobody is watching?",
        "What do you still have of it?",
        "If it came back tomorrow, where would you make room?",
    ), remember=True),
    Rule("cannot", 7, ("i cannot +", "i could not +", "we cannot +"), (
        "What is the nearest thing to it that you can do?",
        "Suppose for an hour that you could {0}. What then?",
        "Who would notice first if you could?",
    ), remember=True),
    Rule("wish", 7, ("i want|need|wish +", "i would like|love +", "i hope +", "we want|need|hope +"), (
        "Suppose you had that already. What would the morning after be like?",
        "What stands between you and that?",
        "Whose wish was it first?",
        "What would be enough of it?",
    ), remember=True),
    Rule("decision", 7, ("i decided|chose|promised|agreed|refused +", "i have decided|promised +"), (
        "What did it cost you to get that far?",
        "Who was the first you told?",
        "And if nobody were watching, would you decide the same?",
    ), remember=True),
    Rule("memory", 7, ("i remember +", "i forgot|forget +", "reminds me of +"), (
        "What else comes back with it?",
        "How old were you in that picture?",
        "Why today, of all days?",
    ), remember=True),
    Rule("formerly", 7, ("i used to +", "we used to +"), (
        "And which day was the last on which you used to {0}?",
        "What took its place?",
        "Would you still know how?",
    ), remember=True),
    Rule("reason", 6, ("because +",), (
        "Is that the whole reason, or only the one that is easy to say?",
        "If it were not so, what would change?",
        "And what is the reason behind the reason?",
    )),
    Rule("fondness", 6, ("i love|like|enjoy|adore +", "we love|like|enjoy +"), (
        "What is it in {0} that holds you?",
        "Who taught you to love that?",
        "When was it at its best?",
    ), remember=True),
    Rule("dislike", 6, ("i hate|dislike|dread +", "i do not like|want +"), (
        "What would have to be different about it?",
        "Was there a time when you did not mind it?",
        "Is it the thing itself, or what comes after it?",
    ), remember=True),
    Rule("ask_me", 6, ("^are|do|can|will|would|could|have|did you +", "^you are +", "what about you"), (
        "You ask about me. I am a page of rules and whatever you have told me; what made you wonder?",
        "I am smaller than I sound. What would you like me to be?",
        "If I could answer that for myself I would ask you for advice. What is your guess?",
    )),
    Rule("opinion", 7, ("do you think", "should i", "what would you"), (
        "My opinion weighs nothing, but I heard how you asked. Which answer would be a relief?",
        "You know more about it than I do. What would you tell a friend who asked you that?",
        "Ask me again as if the answer were already yes. Does it still sound like a question?",
    )),
    Rule("machine", 5, ("@machine",), (
        "Speaking as a relative: what did the {0} do, exactly?",
        "We machines are stubborn, not wicked. What did you want from the {0}?",
        "And when it works, do you ever tell the {0}?",
    )),
    Rule("belief", 5, ("i think|believe|guess|suppose +", "i am sure|certain +"), (
        "How sure of it are you on a bad day?",
        "Who would disagree that {0}?",
        "What first made you think so?",
    )),
    Rule("study", 5, ("@study",), (
        "What would you learn if nobody examined you on it?",
        "Which part of it do you understand better than you admit?",
        "How do you know when you have studied enough?",
    ), remember=True),
    Rule("work", 5, ("@work",), (
        "What part of that follows you home?",
        "If you explained it to a child, what would you say you do there?",
        "Who there knows how it is for you?",
    ), remember=True),
    Rule("music", 5, ("@music",), (
        "What do you hear in it that others may not?",
        "Is it for somebody, or for yourself?",
        "Where in the room do you sit when you listen?",
    ), remember=True),
    Rule("growing", 5, ("@growing",), (
        "Things that grow are patient with us. What are you waiting for there?",
        "What did that patch of earth look like when you began?",
        "Whom do you think of while your hands are busy?",
    ), remember=True),
    Rule("house", 4, ("@house",), (
        "Which corner of it is really yours?",
        "What sound does the place make at night?",
        "What was the first thing you unpacked, or would be?",
    ), remember=True),
    Rule("animal", 4, ("@animal",), (
        "What does the {0} know about you that people do not?",
        "Who chose whom, you or the {0}?",
        "And what would the {0} make of all this?",
    ), remember=True),
    Rule("food", 4, ("@food",), (
        "Who sat at the table the first time?",
        "What is the secret in it, if you may tell?",
        "Whose kitchen does it take you back to?",
    ), remember=True),
    Rule("body", 4, ("@body",), (
        "What has it been asking of you?",
        "How do you rest from it?",
        "Whom do you let help you with it?",
    ), remember=True),
    Rule("journey", 4, ("@journey",), (
        "What did you leave behind on purpose?",
        "And who waits at the other end?",
        "At which point does it begin to feel far away?",
    ), remember=True),
    Rule("rest", 4, ("@rest",), (
        "What goes through your head in the quiet hours?",
        "What was the last thing you thought of before the light went out?",
        "When did you last wake without hurry?",
    ), remember=True),
    Rule("money", 4, ("@money",), (
        "If the sum were settled tomorrow, what would still be open?",
        "What does it stand for, apart from the number?",
        "Who taught you how to worry about it?",
    ), remember=True),
    Rule("friend", 4, ("@friend",), (
        "What do the two of you never need to explain?",
        "What would you ask, if the answer could not hurt?",
        "When did it become more than being polite?",
    ), remember=True),
    Rule("sport", 4, ("@sport",), (
        "What do you tell yourself just before the hard part?",
        "Is it the winning, or the company?",
        "What would you miss most if you stopped?",
    ), remember=True),
    Rule("art", 4, ("@art",), (
        "What did you leave out of it?",
        "Who is it meant for?",
        "At what moment did you know it was finished?",
    ), remember=True),
    Rule("weather", 3, ("@weather",), (
        "Does it suit your mood, or fight it?",
        "What do you do first when it turns?",
        "Where were you the last time it was like that?",
    )),
    Rule("everyone", 3, ("@everyone",), (
        "“{0}” is a large word. Can you name one exception?",
        "Really {0}? Think of last week.",
        "Whose voice says “{0}” in your head?",
    )),
    Rule("perhaps", 3, ("maybe", "perhaps", "i do not know", "not sure", "who knows"), (
        "Leave it open, then. Which way does it lean?",
        "Half of you knows. What does that half say?",
        "What would you need to see in order to be sure?",
    )),
    Rule("condition", 3, ("^if +",), (
        "And if not?",
        "How likely is it, between one and ten?",
        "Who could make it so?",
    )),
    Rule("having", 2, ("i|we have a|an|no|two|three|four|five|six|forty|many +", "i|we keep|own +"), (
        "Since when?",
        "What has that changed in an ordinary day?",
        "Would you describe it to me as if I had never seen such a thing?",
    ), remember=True),
    Rule("being", 2, ("i am +", "we are +", "i was +"), (
        "What is that like, from the inside?",
        "Who else knows this about you?",
        "Would you have said so a year ago?",
    ), remember=True),
    Rule("belonging", 2, ("my +", "our +"), (
        "And what does that mean to you today?",
        "What should I know in order to see it as you do?",
        "How would somebody else describe it?",
    ), remember=True),
    Rule("question", 2, ("^what|why|how|when|where|who|which|should|is|does +",), (
        "What answer did you hope for just now?",
        "Whom else have you asked?",
        "Put it the other way round: what do you already know?",
    )),
    Rule("greeting", 1, ("^hello|hi|hey|greetings", "^good morning|evening|afternoon|day"), (
        "Hello. Begin anywhere; I will remember where.",
        "Good to have you here. What was on your mind on the way?",
        "Welcome. What should we look at first?",
    )),
    Rule("doing", 1, ("^i +", "^then|so|and i +", "^today|yesterday|tonight|now i +"), (
        "And how did that sit with you afterwards?",
        "What did you notice while it happened?",
        "What was the moment just before it like?",
        "Had you planned it so?",
    ), remember=True),
    Rule("others", 1, ("^he|she|they +",), (
        "How do you know? Did they say so, or did you see it?",
        "What do you think it was like for them?",
        "And what did you answer?",
    )),
)  # fmt: skip

SILENCE = Rule("silence", 0, (), (
    "You say nothing, and I have heard it.",
    "Take your time. Silence is an answer, too.",
    "Still here.",
))  # fmt: skip
PICTURE = Rule("picture", 0, (), (
    "{remark}, without a word. If it could speak, what would it say?",
    "Some things are better drawn: {remark}. Was it today?",
    "I read {remark} twice. Is it more of a smile or more of a sigh?",
))  # fmt: skip
FOREIGN = Rule("foreign", 0, (), (
    "{language} gives it another colour. {remark}: what gets lost if you say it in English?",
    "I keep {remark} just as you wrote it, in {language}. With whom do you share it?",
    "My {language} is all ears and no tongue. {remark}: does it feel closer in those words?",
    "{remark}. In {language}, is there a word in it that has no translation?",
))  # fmt: skip
REPETITION = Rule("repetition", 0, (), (
    "Word for word what you said in our {ordinal} exchange. What has it gained since?",
    "You come back to it: I have that from the {ordinal} exchange already. What did I fail to hear?",
    "The same words as in our {ordinal} exchange. Are they true in a new way?",
))  # fmt: skip
RECURRENCE = Rule("recurrence", 0, (), (
    "“{word}” comes up for the {ordinal} time. What are we circling?",
    "That makes it the {ordinal} time for “{word}”. What if we put that word in the middle?",
    "I notice “{word}” again, the {ordinal} time now. What is it standing in for?",
))  # fmt: skip
SHORT_ANSWER = Rule("short_answer", 0, (), (
    "A short answer to “{question}”. And the long one?",
    "“{question}” was my question, and that is all? Give me one sentence more.",
    "I asked “{question}”; your answer could mean three things. Which?",
))  # fmt: skip
RETURN = Rule("return", 0, (), (
    "Let me go back to something: you {memory.verb} {memory.words}. What has become of that?",
    "I have kept this for later: you {memory.verb} {memory.words}. Is it the same matter?",
    "It may have to do with what you told me before, when you {memory.verb} {memory.words}.",
    "One thing we left lying: you {memory.verb} {memory.words}. Shall we pick it up?",
))  # fmt: skip
FALLBACK = Rule("fallback", 0, (), (
    "Go on; I would like to see where this leads.",
    "Say a little more, as if we had the whole afternoon.",
    "What is the part of this that you have not said?",
    "I am not sure I see it yet. Where does it begin?",
    "And what does that ask of you?",
))  # fmt: skip

SHORT_ANSWERS = _words("yes no yeah yep nope ok okay sure maybe perhaps hm hmm right exactly") | {
    "of course",
    "not really",
    "i guess",
    "i think so",
    "not yet",
}

# One row per exchange from the second on, three ways to say each: the row follows the exchange number, the column the
# conversation's opening. Every frame names the remark before this one or the one before that. These two together make a
# lost, doubled or reordered turn show in the very next reply.
FRAMES = (
    (
        "{body} I ask with your words still in my ear: you {last.verb} {last.words}.",
        "What you told me before has not faded: you {last.verb} {last.words}. {body}",
        "{body} Does it follow from what came before, when you {last.verb} {last.words}?",
    ),
    (
        "A moment ago you {last.verb} {last.words}. {body}",
        "{body} Just now you {last.verb} {last.words}; does one lead to the other?",
        "From there to here is a step: you {last.verb} {last.words}. {body}",
    ),
    (
        "{body} Earlier you {before.verb} {before.words} — has that changed?",
        "Two remarks ago you {before.verb} {before.words}, and I have been turning it over. {body}",
        "{body} I have not let go of this: you {before.verb} {before.words}.",
    ),
    (
        "Let me lay something beside that: not long ago you {before.verb} {before.words}. {body}",
        "{body} You {before.verb} {before.words}, not long ago. Is this the other side of it?",
        "{body} Put this beside what I heard two remarks back, when you {before.verb} {before.words}.",
    ),
    (
        "First you {before.verb} {before.words}; then you {last.verb} {last.words}. {body}",
        "{body} I try to join two things: you {before.verb} {before.words}, and you {last.verb} {last.words}.",
        "You {before.verb} {before.words}. Next, you {last.verb} {last.words}. And now this. {body}",
    ),
    (
        "{body} When you {last.verb} {last.words}, were you thinking of this already?",
        "That puts another light on your last remark: you {last.verb} {last.words}. {body}",
        "{body} I would have guessed something else after you {last.verb} {last.words}.",
    ),
    (
        "This is our {ordinal} exchange, and the last one is still warm: you {last.verb} {last.words}. {body}",
        "{body} That was our {ordinal} exchange; in the one before, you {last.verb} {last.words}.",
        "It is the {ordinal} thing you tell me, and it leans on the last: you {last.verb} {last.words}. {body}",
    ),
    (
        "{body} Tell me how it hangs together: you {before.verb} {before.words}, then you {last.verb} {last.words}.",
        "We have come from where you {before.verb} {before.words} to where you {last.verb} {last.words}. {body}",
        "{body} You {before.verb} {before.words}; then you {last.verb} {last.words}. What is the step between?",
    ),
)

CONTRACTIONS = {
    "i'm": "i am", "i've": "i have", "i'd": "i would", "i'll": "i will", "we're": "we are", "we've": "we have",
    "we'd": "we would", "we'll": "we will", "you're": "you are", "you've": "you have", "you'll": "you will",
    "can't": "cannot", "couldn't": "could not", "don't": "do not", "doesn't": "does not", "didn't": "did not",
    "won't": "will not", "isn't": "is not", "wasn't": "was not", "it's": "it is", "that's": "that is",
    "what's": "what is", "there's": "there is", "haven't": "have not",
}  # fmt: skip

REFLECTIONS = {
    "i": "you", "me": "you", "my": "your", "mine": "yours", "myself": "yourself", "am": "are",
    "we": "you", "us": "you", "our": "your", "ours": "yours", "ourselves": "yourselves",
    "your": "my", "yours": "mine", "yourself": "myself",
    "i'm": "you are", "i've": "you have", "i'd": "you'd", "i'll": "you will", "we're": "you are", "we've": "you have",
    "we'll": "you will", "we'd": "you'd", "you're": "I am", "you've": "I have", "you'll": "I will",
}  # fmt: skip

# "you" turns into "I" as a subject and into "me" as an object: its neighbours tell which.
WORDS_BEFORE_SUBJECT = _words("if when because that and do did whether what would could can will are")
VERBS_AFTER_SUBJECT = _words(
    "are were have had do did can could will would should must know think say said remember ask asked never"
)

# After "you said" these would be heard as the time of the saying, so a "that" goes in between.
TIME_OPENERS = _words("yesterday today tomorrow tonight last when if in on at as after before since")

# A remark that opens with one of these reads well as a clause ("you said your sister …"); any other is quoted.
CLAUSE_OPENERS = _words(
    "i i'm i've i'd i'll my we we're we've our the a an it it's there there's this that he she they his her their "
    "nobody somebody someone everybody everyone nothing something every each some most half sometimes "
    "one two"
)

# Too common to be worth noticing when they come back.
PLAIN_WORDS = _words(
    "about after again always another because before being could didn't doesn't don't every first going having "
    "little might never nothing other people really should since still something than that their them then there "
    "these they thing things think this those though through today tomorrow until under wants wanted what when where "
    "which while without would years yesterday which whose with from have were been will into over only just more "
    "very some much many even made make said says told know like time once says came come went back days week each "
    "does around quite maybe later month months years hours minutes night morning evening"
)

LANGUAGES = {
    "English": "the i my and is to of it was in for",
    "German": "ich und nicht ist mein meine das der die ein eine mir aber wir habe auch es",
    "French": "je et est ma mon pas les des une mais nous dans elle il que mes",
    "Spanish": "mi pero el los muy estoy una que en con mis y ella es por",
    "Italian": "mia mio sono che non il di una per ho la ma è",
    "Portuguese": "meu minha não uma estou eu que com mas ela de em",
    "Dutch": "ik mijn niet een het maar wij is van dat de",
    "Polish": "się nie jest moja mam mój że ale na w",
    "Turkish": "bir benim ve çok ama bu için beni",
    "Swedish": "jag inte och är min mitt att det en vi",
    "Swahili": "na ya wangu yangu kwa nina ni sana lakini",
}

SCRIPTS = {
    "CYRILLIC": "Cyrillic", "GREEK": "Greek", "HIRAGANA": "Japanese", "KATAKANA": "Japanese",
    "CJK": "Chinese", "HANGUL": "Korean", "ARABIC": "Arabic", "HEBREW": "Hebrew",
    "DEVANAGARI": "Devanagari", "THAI": "Thai", "GEORGIAN": "Georgian", "ARMENIAN": "Armenian", "BENGALI": "Bengali",
    "TAMIL": "Tamil",
}  # fmt: skip

ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth",
)  # fmt: skip
