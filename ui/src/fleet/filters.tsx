import {React} from '../react';
import {Mark} from '../parts/mark';
import {cut, oneLine} from '../text/format';
import {ALL_STATES, STATES, summary} from './judge';
import type {State} from './judge';
import {NONE, choices} from './rows';
import type {Row} from './rows';
import {DEFAULT, isFiltered} from './view';
import type {View} from './view';

interface Props {
    all: Row[];
    view: View;
    /** Why the label selector has no effect. */
    error: string | null;
    onChange: (change: Partial<View>) => void;
}

function Field(props: {label: string; value: string; hint: string; error?: string | null; onChange: (value: string) => void}) {
    const {label, value, hint, error, onChange} = props;
    return (
        <label className='acda-field'>
            <span className='acda-label'>{label}</span>
            <input
                type='search'
                value={value}
                placeholder={hint}
                spellCheck={false}
                autoComplete='off'
                aria-invalid={Boolean(error)}
                onChange={event => onChange(event.target.value)}
            />
            {error && (
                <span role='alert' className='acda-field-error'>
                    {cut(oneLine(error), 200).text}
                </span>
            )}
        </label>
    );
}

function Choice(props: {label: string; value: string; options: [string, number][]; onChange: (value: string) => void}) {
    const {label, value, options, onChange} = props;
    const isThere = value === '' || options.some(([name]) => name === value);
    return (
        <label className='acda-field'>
            <span className='acda-label'>{label}</span>
            <select value={value} onChange={event => onChange(event.target.value)}>
                <option value=''>all</option>
                {options.map(([name, count]) => (
                    <option key={name} value={name}>
                        {name === NONE ? 'none' : cut(oneLine(name), 80).text} ({count})
                    </option>
                ))}
                {!isThere && <option value={value}>{cut(oneLine(value), 80).text} (0)</option>}
            </select>
        </label>
    );
}

/** The states as buttons with their numbers; pressed ones filter. */
function States({all, chosen, onChange}: {all: Row[]; chosen: readonly State[]; onChange: (states: State[]) => void}) {
    const counts = React.useMemo(() => new Map(summary(all.map(row => row.state))), [all]);
    const toggle = (state: State) => {
        const isChosen = chosen.includes(state);
        onChange(ALL_STATES.filter(it => (it === state ? !isChosen : chosen.includes(it))));
    };
    return (
        <div role='group' aria-label='States' className='acda-states'>
            {ALL_STATES.map(state => (
                <button
                    key={state}
                    type='button'
                    className='acda-state'
                    aria-pressed={chosen.includes(state)}
                    onClick={() => toggle(state)}>
                    <Mark mood={STATES[state].mood} /> {STATES[state].label} <strong>{counts.get(state) ?? 0}</strong>
                    {STATES[state].letter !== '' && <span className='acda-muted'> {STATES[state].letter}</span>}
                </button>
            ))}
        </div>
    );
}

export function Filters({all, view, error, onChange}: Props) {
    const clusterSets = React.useMemo(() => choices(all, it => it.clusterSet), [all]);
    const versions = React.useMemo(() => choices(all, it => it.version), [all]);
    const reset = () => {
        const {text, labels, clusterSet, version, states} = DEFAULT;
        onChange({text, labels, clusterSet, version, states});
    };
    return (
        <div role='search' aria-label='Filter clusters'>
            <States all={all} chosen={view.states} onChange={states => onChange({states})} />
            <div className='acda-filters'>
                <Field label='Text' value={view.text} hint='name, version, error' onChange={text => onChange({text})} />
                <Field label='Labels' value={view.labels} hint='env=prod,!test' error={error} onChange={labels => onChange({labels})} />
                <Choice label='ClusterSet' value={view.clusterSet} options={clusterSets} onChange={clusterSet => onChange({clusterSet})} />
                <Choice label='Version' value={view.version} options={versions} onChange={version => onChange({version})} />
                <button type='button' className='acda-button' onClick={reset} disabled={!isFiltered(view)}>
                    clear filters
                </button>
            </div>
        </div>
    );
}
